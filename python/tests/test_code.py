"""What is packed of a directory."""

import io
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest
import zipfile

import phos
from phos.code import pack, project_root

FILES = [
    "train.py", "data/big.bin", "data/keep.bin", "logs/a.log", "logs/deep/b.log", "src/.hidden", "build/x", "src/build/x",
    "notes.txt", "src/notes.txt", "a b.py", "x1.tmp", "xa.tmp", "deep/er/still/z.o", "top/z.o", "#odd", "!odd", "end ",
]
PATTERNS = "# a comment\n/data/*\n!/data/keep.bin\n*.log\nbuild/\n/notes.txt\nx[0-9].tmp\ndeep/**/z.o\n\\#odd\n\\!odd\n"


class PackTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text="x"):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def packed(self, **change):
        content = pack(phos.LocalDir(path=str(self.root), **change))
        return zipfile.ZipFile(io.BytesIO(content)).infolist()

    @unittest.skipUnless(shutil.which("git"), "git says what it would ignore")
    def test_as_git(self):
        """The same files are left out as by git."""
        for path in FILES:
            self.write(path)
        self.write(".gitignore", PATTERNS)
        self.write("src/.gitignore", "!build/\nnotes.*\n")
        git = ["git", "-C", str(self.root), "-c", "core.excludesFile="]
        subprocess.run([*git, "init", "-q"], check=True)
        said = subprocess.run([*git, "ls-files", "-coz", "--exclude-standard"], check=True, capture_output=True)
        self.assertEqual(sorted(i.filename for i in self.packed()), sorted(said.stdout.decode().split("\0")[:-1]))

    def test_phosignore(self):
        for path in ("a.py", "b.ckpt", "c/d.ckpt"):
            self.write(path)
        self.write(".phosignore", "*.ckpt\n.phosignore\n")
        self.assertEqual([i.filename for i in self.packed()], ["a.py"])

    def test_kinds(self):
        self.write("run.sh")
        os.chmod(self.root / "run.sh", 0o700)
        os.symlink("run.sh", self.root / "link")
        (self.root / "empty").mkdir()
        os.mkfifo(self.root / "pipe")
        got = {i.filename: i for i in self.packed()}
        self.assertEqual(sorted(got), ["empty/", "link", "run.sh"])
        self.assertTrue(stat.S_ISLNK(got["link"].external_attr >> 16))
        self.assertTrue(got["run.sh"].external_attr >> 16 & stat.S_IXUSR)

    def test_same_bytes(self):
        self.write("a")
        first = pack(phos.LocalDir(path=str(self.root)))
        os.utime(self.root / "a", (1, 1))
        self.assertEqual(first, pack(phos.LocalDir(path=str(self.root))))

    def test_too_large(self):
        (self.root / "noise").write_bytes(os.urandom(2 << 20))
        with self.assertRaises(phos.InvalidLaunchError) as caught:
            self.packed(limit_mb=1)
        self.assertIn("noise (2 MiB)", str(caught.exception))

    def test_root(self):
        self.write("requirements.txt", "")
        (self.root / "a/b").mkdir(parents=True)
        self.assertEqual(project_root(str(self.root / "a/b")), str(self.root))
        with self.assertRaises(ValueError) as caught:
            pack(phos.LocalDir(path=str(self.root / "none")))
        self.assertIn("want a directory", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
