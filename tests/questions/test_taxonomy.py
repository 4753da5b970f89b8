"""Taxonomies from every kind of file; what is wrong with one is named with file and row."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from birds import LEVELS, TAXONOMY, taxonomy

from snellen.errors import DataError
from snellen.questions.image_rows import Images, by_folders, by_inaturalist, by_last_word, read_folders, read_rows
from snellen.questions.taxonomy import Taxonomy
from snellen.questions.taxonomy_readers import read_darwin_core, read_json, read_newick, read_table
from snellen.sources import open_tree


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def species(found: Taxonomy) -> dict[str, str]:
    """Each path of the finest level, by its name."""
    return dict(zip(found.names[-1], found.paths(len(found.levels) - 1), strict=True))


def test_a_table_has_a_column_for_each_level_and_aliases_find_their_class(tmp_path):
    found = read_table(Path(taxonomy(tmp_path)), None)
    assert found.levels == LEVELS
    assert [len(names) for names in found.names] == [2, 4, 12]
    assert species(found)["ivory gull"] == "gulls > gull > ivory gull"
    assert found.names[-1][found.find("Silvery-One")] == "herring gull"
    assert found.names[-1][found.find("012.Arctic_Tern")] == "arctic tern"
    assert found.find("albatross") is None


def test_a_level_that_is_left_out_leaves_the_others_as_they_are(tmp_path):
    found = read_table(Path(taxonomy(tmp_path)), ("order", "species"))
    assert species(found)["palm warbler"] == "songbirds > palm warbler"


def test_classes_under_one_ancestor_stand_together(tmp_path):
    found = read_table(Path(taxonomy(tmp_path)), None)
    for depth in range(3):
        for at in range(depth + 1):
            above = found.ancestors(depth, at).tolist()
            assert above == sorted(above)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("genus,species\ngull,ivory gull\ntern,ivory gull\n", r"line 3: the species 'ivory gull' stands under 'tern'"),
        ("genus,species\na,b\nb,c\nc,a\n", r"line \d: .* is a cycle"),
        ("genus,species\n,ivory gull\n", r"line 2: there is no genus above 'ivory gull'"),
        ('genus,species\ngull,"the ""ivory"" gull"\n', r"line 2: .* double quote"),
        ("genus,species\n", r"no rows"),
        ("name,parent\na,b\nb,c\nc,a\n", r"line 2: .* is a cycle"),
        ("name,parent\na,b\na,c\n", r"line 3: 'a' stands under 'c'"),
    ],
)
def test_what_is_no_taxonomy_is_refused_with_its_row(tmp_path, text, complaint):
    path = written(tmp_path, "t.csv", text)
    with pytest.raises(DataError, match=complaint) as error:
        read_table(path, ("genus", "species"))
    assert "t.csv" in error.value.message


def test_a_name_under_two_parents_can_be_told_apart(tmp_path):
    path = written(tmp_path, "t.csv", "family,genus,species\nbirds,Oenanthe,O. hispanica\nplants,Oenanthe,O. crocata\n")
    found = read_table(path, None, "qualify")
    assert found.names[1] == ("Oenanthe (birds)", "Oenanthe (plants)")
    assert species(found)["O. crocata"] == "plants > Oenanthe (plants) > O. crocata"


def test_a_class_may_be_called_like_the_one_above_it(tmp_path):
    path = written(tmp_path, "t.csv", "genus,species\nPuma,Puma\nLynx,Lynx lynx\n")
    assert species(read_table(path, None))["Puma"] == "Puma > Puma"


def test_child_and_parent_make_a_taxonomy(tmp_path):
    path = written(tmp_path, "t.tsv", "name\tparent\nivory gull\tgull\nherring gull\tgull\ngull\t\narctic tern\ttern\n")
    assert species(read_table(path, ("genus", "species")))["arctic tern"] == "tern > arctic tern"


def test_newick_and_json_trees_say_the_same(tmp_path):
    newick = written(
        tmp_path,
        "t.nwk",
        "((ivory_gull:0.1,'herring gull')gull:2,[a comment]('o''brien tern',arctic_tern)tern)birds;",
    )
    tree = written(
        tmp_path,
        "t.json",
        '{"name": "birds", "children": [{"name": "gull", "children": [{"name": "ivory gull"}, '
        '{"name": "herring gull", "aliases": ["silvery one"]}]}, {"name": "tern", "children": '
        '[{"name": "o\'brien tern"}, {"name": "arctic tern"}]}]}',
    )
    one, other = read_newick(newick, ("genus", "species")), read_json(tree, ("genus", "species"))
    assert species(one) == species(other)
    assert one.levels == ("genus", "species") and len(one.names[1]) == 4
    assert other.names[1][other.find("silvery one")] == "herring gull"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("((a,b)c,d", "cut off"),
        ("((a,b),(c)d)e;", "has no name"),
        ("(a,b))c;", r"line 1: '\)' without"),
        ("((a,b)x,(c,a)y)r;", "stands under"),
        ("((a,b)x,(x,c)a)r;", "is a cycle"),
        ("(((a)b)c)d;", "has 3 levels"),
    ],
)
def test_a_faulty_newick_tree_is_refused(tmp_path, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_newick(written(tmp_path, "t.nwk", text), ("genus", "species"))


META = """<?xml version="1.0" encoding="UTF-8"?>
<archive xmlns="http://rs.tdwg.org/dwc/text/">
  <core encoding="UTF-8" fieldsTerminatedBy="\\t" fieldsEnclosedBy="" ignoreHeaderLines="1"
        rowType="http://rs.tdwg.org/dwc/terms/Taxon">
    <files><location>taxon.txt</location></files>
    <id index="0"/>
    <field index="1" term="http://rs.tdwg.org/dwc/terms/family"/>
    <field index="2" term="http://rs.tdwg.org/dwc/terms/genus"/>
    <field index="3" term="http://rs.tdwg.org/dwc/terms/scientificName"/>
    <field index="4" term="http://rs.tdwg.org/dwc/terms/taxonRank"/>
  </core>
  <extension encoding="UTF-8" fieldsTerminatedBy="\\t" fieldsEnclosedBy="" ignoreHeaderLines="1"
             rowType="http://rs.gbif.org/terms/1.0/VernacularName">
    <files><location>names.txt</location></files>
    <coreid index="0"/>
    <field index="1" term="http://rs.tdwg.org/dwc/terms/vernacularName"/>
  </extension>
</archive>
"""


def test_a_darwin_core_archive_brings_its_common_names(tmp_path):
    taxa = "id\tfamily\tgenus\tname\trank\n1\tLaridae\tLarus\tLarus canus\tspecies\n2\tLaridae\tLarus\tLarus\tgenus\n"
    taxa += "3\tLaridae\tSterna\tSterna hirundo\tspecies\n"
    with zipfile.ZipFile(tmp_path / "dwca.zip", "w") as archive:
        archive.writestr("meta.xml", META)
        archive.writestr("taxon.txt", taxa)
        archive.writestr("names.txt", "id\tname\n1\tcommon gull\n3\tcommon tern\n")
    found = read_darwin_core(tmp_path / "dwca.zip", ("family", "genus", "species"))
    assert species(found) == {
        "Larus canus": "Laridae > Larus > Larus canus",
        "Sterna hirundo": "Laridae > Sterna > Sterna hirundo",
    }
    assert found.names[2][found.find("common tern")] == "Sterna hirundo"


def test_an_archive_of_taxa_that_name_their_parents_is_read_by_their_numbers(tmp_path):
    core = META.partition("  <extension")[0].replace("dwc/terms/family", "dwc/terms/parentNameUsageID")
    core = core.replace('    <field index="2" term="http://rs.tdwg.org/dwc/terms/genus"/>\n', "")
    (tmp_path / "meta.xml").write_text(core + "</archive>")
    taxa = "id\tparent\t-\tname\trank\n9\t\t\tLarus\tgenus\n1\t9\t\tLarus canus\tspecies\n"
    (tmp_path / "taxon.txt").write_text(taxa + "8\t\t\tSterna\tgenus\n3\t8\t\tSterna hirundo\tspecies\n")
    found = read_darwin_core(tmp_path, ("genus", "species"))
    assert species(found) == {"Larus canus": "Larus > Larus canus", "Sterna hirundo": "Sterna > Sterna hirundo"}


def test_an_archive_whose_description_declares_entities_is_refused(tmp_path):
    (tmp_path / "meta.xml").write_text('<!DOCTYPE a [<!ENTITY x "y">]><archive/>')
    with pytest.raises(DataError, match="declares a document type"):
        read_darwin_core(tmp_path, None)


def images(*names: str) -> Images:
    return Images("x", list(names), [name.split("/")[-2] for name in names], list(range(1, len(names) + 1)), "image")


def test_folders_as_inaturalist_calls_them_are_a_taxonomy():
    one = "val/00001_Animalia_Chordata_Aves_Charadriiformes_Laridae_Larus_canus/1.jpg"
    other = "val/00002_Plantae_Tracheophyta_Liliopsida_Poales_Poaceae_Poa_annua/1.jpg"
    found, labelled = by_inaturalist(images(one, other), None)
    assert labelled.labels == ["Larus canus", "Poa annua"]
    assert species(found)["Poa annua"].startswith("Plantae > Tracheophyta > ")
    with pytest.raises(DataError, match=r"image 1 .*is not of the form"):
        by_inaturalist(images("val/gull/1.jpg"), None)


def test_nested_folders_are_a_taxonomy(tmp_path):
    for name in ("birds/gull/1.jpg", "birds/tern/1.jpg", "cats/lynx/1.jpg", "cats/.DS_Store", "classes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    found = read_folders(open_tree(tmp_path))
    assert species(by_folders(found, ("group", "kind"))) == {
        "gull": "birds > gull",
        "tern": "birds > tern",
        "lynx": "cats > lynx",
    }
    (tmp_path / "cats" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"image 4: 'cats/notes.txt' is not an image"):
        read_folders(open_tree(tmp_path))


def test_the_last_word_of_a_name_is_a_pseudo_genus_and_is_called_so():
    found = by_last_word(["001.Black_footed_Albatross", "ovenbird", "Chuck-will's-widow"], ("genus", "species"), "x")
    assert species(found)["Black footed Albatross"] == "albatross > Black footed Albatross"
    assert species(found)["ovenbird"] == "ovenbird > ovenbird"
    assert "pseudo-genus" in found.note


def test_rows_are_parted_by_the_last_comma_and_indices_are_names(tmp_path):
    path = written(tmp_path, "rows.csv", 'image,label\nimg/a, b/1.jpg,1\n"img/2.jpg",0\n')
    found = read_rows(path, ["gull", "tern"])
    assert found.names == ["img/a, b/1.jpg", "img/2.jpg"] and found.labels == ["tern", "gull"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a.jpg,0\nb.jpg,2\n", r"rows.csv, line 2: the label 2 is beyond the 2 classes"),
        ("a.jpg,owl\n", r"line 1: the label 'owl' is not among"),
        ("a.jpg,0\nb.jpg\n", r"line 2: 'b.jpg' found"),
        ("a.jpg,0\nc.jpg,1\na.jpg,1\n", r"line 3: 'a.jpg' is listed twice, first in line 1"),
        ("../a.jpg,0\n", r"line 1: the name '../a.jpg' holds '..'"),
        ("", "there are no rows"),
    ],
)
def test_a_faulty_row_is_named(tmp_path, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_rows(written(tmp_path, "rows.csv", text), ["gull", "tern"])


def test_every_level_of_the_example_is_there(tmp_path):
    assert TAXONOMY.startswith(",".join(LEVELS))
    with pytest.raises(DataError, match="no column 'family'"):
        read_table(Path(taxonomy(tmp_path)), ("family", "species"))
