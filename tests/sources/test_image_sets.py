"""Images in every official layout: as the archives come, as they unpack, and many sets in one folder."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from snellen.errors import DataError, UnsafeArchiveError
from snellen.sources.image_sets import set_pictures
from snellen.sources.locator import Pictures

BIRD = "images/001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg"
DOG = "images/n02085620-Chihuahua/n02085620_10074.jpg"
AIRCRAFT = "images/1514522.jpg"
CAR = "car_ims/000046.jpg"
COAT = "img/Knit,_Ribbed_Dress/img_00000001.jpg"
FLOWER = "jpg/image_00001.jpg"
FOOD = "images/apple_pie/1005649.jpg"
PLANT = "val/06267_Plantae_Tracheophyta_Liliopsida_Poales_Cyperaceae_Carex_squarrosa/4bc8.jpg"
PLANE = "B-2/B-2_043.jpg"
FRUIT = "fru92_images/pomelo/fru_1.jpg"
CHARD = "veg200_images/chard/veg_7.jpg"
SKIN = "fitzpatrick17k/952aa2d323c527a7da1bd4110b32303b.jpg"
DDI = "ddidiversedermatologyimages/000001.png"
WINE = "images/img_0005062.jpg"

# (set, path of an image, archive as it comes, its member)
ARCHIVES = [
    ("aircraft", AIRCRAFT, "fgvc-aircraft-2013b.tar.gz", "fgvc-aircraft-2013b/data/images/1514522.jpg"),
    ("aircraft", AIRCRAFT, "aircraft.zip", "aircraft/images/1514522.jpg"),
    ("aircraft", AIRCRAFT, "aircraft.zip", "1514522.jpg"),
    ("cub", BIRD, "CUB_200_2011.tgz", f"CUB_200_2011/{BIRD}"),
    ("cub", BIRD, "CUB.zip", f"CUB/CUB_200_2011/{BIRD}"),
    ("cub", BIRD, "CUB.zip", BIRD.partition("/")[2]),
    ("deepfashion", COAT, "img.zip", COAT),
    ("deepfashion", COAT, "Category and Attribute Prediction Benchmark/Img/img.zip", COAT),
    ("deepfashion", COAT, "deepfashion.tar", f"deepfashion/Img/{COAT}"),
    ("flowers102", FLOWER, "102flowers.tgz", FLOWER),
    ("flowers102", FLOWER, "flowers102.tar", f"flowers102/{FLOWER}"),
    ("food101", FOOD, "food-101.tar.gz", f"food-101/{FOOD}"),
    ("inat2021", PLANT, "val.tar.gz", PLANT),
    ("inat2021", PLANT, "inat/2021_valid.tgz", PLANT.replace("val/", "2021_valid/")),
    ("mtarsi", PLANE, "MTARSI-Fixed.zip", f"MTARSI-Fixed/{PLANE}"),
    ("skincon", SKIN, "skincon.tar", f"skincon/{SKIN}"),
    ("skincon", SKIN, "fitzpatrick17k.zip", f"data/finalfitz17k/{SKIN.partition('/')[2]}"),
    ("skincon", DDI, "ddidiversedermatologyimages.zip", "000001.png"),
    ("stanfordcar", CAR, "car_ims.tgz", CAR),
    ("stanforddog", DOG, "images.tar", DOG.replace("images/", "Images/")),
    ("stanforddog", DOG, "StanfordDogs/images.tar", DOG.replace("images/", "Images/")),
    ("stanforddog", DOG, "dog.zip", f"dog/{DOG}"),
    ("vegfru", FRUIT, "fru92_images.tar.gz", FRUIT),
    ("vegfru", CHARD, "vegfru.zip", f"vegfru-dataset/{CHARD}"),
    ("wine", WINE, "wine.zip", f"wine/{WINE}"),
]
# (set, path of an image, where it lies in the unpacked folder)
FOLDERS = [
    ("aircraft", AIRCRAFT, "fgvc-aircraft-2013b/data/images/1514522.jpg"),
    ("aircraft", AIRCRAFT, "data/images/1514522.jpg"),
    ("cub", BIRD, f"CUB_200_2011/CUB_200_2011/{BIRD}"),
    ("cub", BIRD, BIRD.partition("/")[2]),
    ("deepfashion", COAT, f"Category and Attribute Prediction Benchmark/Img/{COAT}"),
    ("deepfashion", COAT, f"Img/{COAT}"),
    ("flowers102", FLOWER, f"flowers-102/{FLOWER}"),
    ("food101", FOOD, f"food-101/{FOOD}"),
    ("inat2021", PLANT, PLANT.replace("val/", "2021_valid/")),
    ("mtarsi", PLANE, f"MTARSI_1/{PLANE}"),
    ("skincon", SKIN, f"data/finalfitz17k/{SKIN.partition('/')[2]}"),
    ("stanfordcar", CAR, f"stanford_cars/{CAR}"),
    ("stanforddog", DOG, DOG.replace("images/", "Images/")),
    ("stanforddog", DOG, f"Stanford Dogs/{DOG.replace('images/', 'Images/')}"),
    ("stanforddog", DOG, DOG.partition("/")[2]),
    ("vegfru", FRUIT, f"VegFru/{FRUIT}"),
    ("wine", WINE, f"wine/{WINE}"),
]


def content(member: str) -> bytes:
    return f"image {member.rpartition('/')[2]}".encode()


def put(path: Path, member: str) -> Path:
    """An archive with one image, by its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content(member))
        return path
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(content(member))
        archive.addfile(info, io.BytesIO(content(member)))
    return path


def placed(root: Path, member: str) -> Path:
    path = root / member
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content(member))
    return root


def read(roots: Pictures, image: str) -> bytes:
    return roots.blob(image).read()


@pytest.mark.parametrize("known", [True, False], ids=["set named", "set by path"])
@pytest.mark.parametrize(("name", "image", "archive", "member"), ARCHIVES)
def test_an_archive_as_it_comes_serves_its_images(tmp_path, name, image, archive, member, known):
    path = put(tmp_path / archive, member)
    sets = [name] if known else []
    assert read(set_pictures(tmp_path, sets), image) == content(image)
    assert read(set_pictures(path, sets), image) == content(image)


@pytest.mark.parametrize(("name", "image", "member"), FOLDERS)
def test_an_unpacked_archive_serves_its_images(tmp_path, name, image, member):
    placed(tmp_path / "all", member)
    assert read(set_pictures(tmp_path / "all", [name]), image) == content(image)


@pytest.mark.parametrize("inside", ["images", "Images", "CUB_200_2011/images", "shelf/CUB_200_2011/images"])
def test_the_folder_of_images_itself_may_be_named(tmp_path, inside):
    placed(tmp_path / inside, BIRD.partition("/")[2])
    assert read(set_pictures(tmp_path / inside, ["cub"]), BIRD) == content(BIRD)


def test_one_folder_of_archives_serves_all_sets(tmp_path):
    for _, _, archive, member in ARCHIVES:
        if not (tmp_path / archive).exists():
            put(tmp_path / archive, member)
    roots = set_pictures(tmp_path)
    for _, image, _, _ in ARCHIVES:
        assert read(roots, image) == content(image)


def test_only_archives_that_may_hold_the_image_are_opened(tmp_path):
    put(tmp_path / "car_ims.tgz", CAR)
    (tmp_path / "food-101.tar.gz").write_bytes(b"damaged")
    (tmp_path / "own.zip").write_bytes(b"damaged")
    roots = set_pictures(tmp_path)
    assert read(roots, CAR) == content(CAR)
    assert roots.faults == []
    assert roots.located(FOOD) is None
    (fault,) = roots.faults
    assert fault.startswith("food-101.tar.gz cannot be used: ")


def test_a_pointer_and_an_archive_of_another_kind_are_named_with_what_to_do(tmp_path):
    (tmp_path / "CUB.zip").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1200000000\n")
    (tmp_path / "CUB_200_2011.tar.xz").write_bytes(b"xz")
    roots = set_pictures(tmp_path, ["cub"])
    assert roots.located(BIRD) is None
    faults = {fault.split(" ")[0]: fault for fault in roots.faults}
    assert "1,200,000,000 bytes were not fetched" in faults["CUB.zip"]
    assert "git lfs pull" in faults["CUB.zip"]
    assert "unpack it" in faults["CUB_200_2011.tar.xz"]


def test_an_archive_in_an_archive_is_named(tmp_path):
    put(tmp_path / "deepfashion.zip", "Img/img.zip")
    roots = set_pictures(tmp_path)
    with pytest.raises(DataError, match=r"deepfashion\.zip cannot be used: it holds Img/img\.zip"):
        roots.blob(COAT)


def test_a_set_that_is_linked_into_the_folder_is_read_and_other_links_are_not(tmp_path):
    placed(tmp_path / "disk" / "birds", BIRD)
    placed(tmp_path / "disk" / "secret", CAR)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "CUB_200_2011").symlink_to(tmp_path / "disk/birds", target_is_directory=True)
    (tmp_path / "images" / "other").symlink_to(tmp_path / "disk/secret", target_is_directory=True)
    roots = set_pictures(tmp_path / "images")
    assert read(roots, BIRD) == content(BIRD)
    with pytest.raises(UnsafeArchiveError, match="symbolic link"):
        roots.located(CAR)
    with pytest.raises(UnsafeArchiveError):
        roots.located("images/../../disk/secret/x.jpg")


def test_images_of_all_archives_are_under_the_paths_of_a_split(tmp_path):
    put(tmp_path / "fgvc-aircraft-2013b.tar.gz", "fgvc-aircraft-2013b/data/images/1514522.jpg")
    pictures = set_pictures(tmp_path)
    blob = pictures.find(AIRCRAFT, "split.csv, line 1")
    assert blob.read() == blob.open().read() == content(AIRCRAFT)
    assert pictures.located("images/0000001.jpg") is None
    with pytest.raises(DataError, match=r"split\.csv, line 2: image 'images/0000001\.jpg' is not under"):
        pictures.find("images/0000001.jpg", "split.csv, line 2").read()
