"""Sources of rows and images: files, folders, archives, tables, the hub. All of them are untrusted."""

from snellen.sources.blobs import Base64Blob, BytesBlob, Drawn, FileBlob, Unreadable, UrlBlob
from snellen.sources.digests import cache_folder, digest
from snellen.sources.hub import Snapshot, download, download_file, locate
from snellen.sources.open_tree import kept_tree, open_tree
from snellen.sources.rows import numbered, rows, salvaged
from snellen.sources.safe_paths import member_name, within
from snellen.sources.tree import ArchiveLimits, FolderTree, Tree

__all__ = [
    "ArchiveLimits",
    "Base64Blob",
    "BytesBlob",
    "Drawn",
    "FileBlob",
    "FolderTree",
    "Snapshot",
    "Tree",
    "Unreadable",
    "UrlBlob",
    "cache_folder",
    "digest",
    "download",
    "download_file",
    "kept_tree",
    "locate",
    "member_name",
    "numbered",
    "open_tree",
    "rows",
    "salvaged",
    "within",
]
