package code

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// write makes files with their directories. A name that ends with a slash is a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(file, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// unpack returns what an archive has: the content of files, the target of links behind "->", and
// "/" for directories.
func unpack(t *testing.T, p *Packed) map[string]string {
	t.Helper()
	plain, err := zstd.NewReader(bytes.NewReader(p.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	content := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.ModTime.Unix() != 0 {
			t.Errorf("%q has an owner or a time: %+v", header.Name, header)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		switch header.Typeflag {
		case tar.TypeDir:
			content[strings.TrimSuffix(header.Name, "/")] = "/"
		case tar.TypeSymlink:
			content[header.Name] = "->" + header.Linkname
		default:
			content[header.Name] = string(text)
		}
	}
}

func pack(t *testing.T, dir string) *Packed {
	t.Helper()
	p, err := Pack(t.Context(), dir, DefaultLimit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func check(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if got := unpack(t, pack(t, dir)); !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPlainDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"train.py": "x", "data/big.bin": "y", "lib/a.py": "a", "lib/a.pyc": "b", "empty/": "", ".git/config": "no",
		".gitignore": "*.pyc\n", ".phosignore": "/data/\n", "lib/.phosignore": "!a.pyc\n", "sub/.git": "gitdir: x",
	})
	check(t, dir, map[string]string{
		"train.py": "x", "lib": "/", "lib/a.py": "a", "lib/a.pyc": "b", "empty": "/", ".gitignore": "*.pyc\n",
		".phosignore": "/data/\n", "lib/.phosignore": "!a.pyc\n", "sub": "/",
	})
}

// run runs git in a directory.
func run(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	command := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t"}, arguments...)...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", arguments, err, output)
	}
}

func TestWorkTree(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "init", "-q")
	write(t, dir, map[string]string{
		"a.py": "a", "gone.py": "g", "tracked.log": "t", "new.py": "n", "x.log": "l", ".gitignore": "*.log\nbuild/\n",
		".phosignore": "docs\n", "docs/1": "d", "in/b.py": "b", "in/docs/2": "d", "build/out": "o",
		"other/c.py": "c", "other/x.log": "l", "other/d.tmp": "d", "other/.gitignore": "*.tmp\n",
	})
	run(t, filepath.Join(dir, "other"), "init", "-q")
	run(t, dir, "add", "-f", "a.py", "gone.py", "tracked.log")
	if err := os.Remove(filepath.Join(dir, "gone.py")); err != nil {
		t.Fatal(err)
	}
	check(t, dir, map[string]string{
		"a.py": "a", "tracked.log": "t", "new.py": "n", ".gitignore": "*.log\nbuild/\n", ".phosignore": "docs\n",
		"in": "/", "in/b.py": "b", "other": "/", "other/c.py": "c", "other/x.log": "l", "other/.gitignore": "*.tmp\n",
	})
	check(t, filepath.Join(dir, "in"), map[string]string{"b.py": "b", "docs": "/", "docs/2": "d"})
	// What git ignores as a whole was meant by a caller in it.
	check(t, filepath.Join(dir, "build"), map[string]string{"out": "o"})
	// A variable of a hook's environment points elsewhere.
	t.Setenv("GIT_DIR", filepath.Join(dir, "other", ".git"))
	check(t, filepath.Join(dir, "in"), map[string]string{"b.py": "b", "docs": "/", "docs/2": "d"})
}

// TestDeterministic: times, modes and the order on disk do not change the bytes; content and the
// right to execute do.
func TestDeterministic(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": "2", "b/d": "3", "é": "4"}
	first, second := t.TempDir(), t.TempDir()
	write(t, first, files)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		write(t, second, map[string]string{name: files[name]})
	}
	if err := os.Chtimes(filepath.Join(second, "a"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(second, "a"), 0o664); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pack(t, first).Bytes, pack(t, second).Bytes) {
		t.Error("the same directory gives other bytes")
	}
	if err := os.Chmod(filepath.Join(second, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(pack(t, first).Ref().GetHash(), pack(t, second).Ref().GetHash()) {
		t.Error("the right to execute is lost")
	}
}

// TestHostile: what is no file is skipped, links are not followed, and any name is kept.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, dir, map[string]string{"new\nline": "1", "\xff\xfe": "2", strings.Repeat("l", 255): "3", "-rf": "4", " ": "5"})
	if err := errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "outdir")),
		os.Symlink(".", filepath.Join(dir, "loop")),
		os.Symlink("nothing", filepath.Join(dir, "dangling")),
		os.Symlink(outside, filepath.Join(dir, ".phosignore")),
		unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		unix.Mkfifo(filepath.Join(dir, ".gitignore"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	check(t, dir, map[string]string{
		"new\nline": "1", "\xff\xfe": "2", strings.Repeat("l", 255): "3", "-rf": "4", " ": "5", "out": "->" + outside,
		"outdir": "->" + filepath.Dir(outside), "loop": "->.", "dangling": "->nothing", ".phosignore": "->" + outside,
	})
	if skipped := pack(t, dir).Skipped; !slices.Equal(skipped, []string{".gitignore", "fifo", "s"}) {
		t.Errorf("skipped %q", skipped)
	}
}

// TestChanges packs a directory again and again while its files grow, shrink, become links and
// fifos, and go. Each archive is whole, or the error says what happened.
func TestChanges(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Dir(outside), map[string]string{"secret": "secret"})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		random := rand.New(rand.NewPCG(1, 1))
		for ctx.Err() == nil {
			name := filepath.Join(dir, string('a'+rune(random.IntN(4))))
			switch random.IntN(5) {
			case 0:
				_ = os.RemoveAll(name)
			case 1:
				_ = os.Symlink(outside, name)
			case 2:
				_ = unix.Mkfifo(name, 0o600)
			case 3:
				_ = os.Mkdir(name, 0o700)
			default:
				// Not os.WriteFile: a fifo would block it.
				file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, 0o600)
				if err == nil {
					_, _ = file.Write(bytes.Repeat([]byte("x"), random.IntN(100_000)))
					_ = file.Close()
				}
			}
		}
	}()
	for range 300 {
		p, err := Pack(t.Context(), dir, DefaultLimit)
		if err != nil {
			continue
		}
		for name, text := range unpack(t, p) {
			if text == "secret" {
				t.Fatalf("%s was followed", name)
			}
		}
	}
	stop()
	<-over
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	noise := make([]byte, 2<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	write(t, dir, map[string]string{"data/a": string(noise[:1<<20]), "data/b": string(noise[1<<20:]), "train.py": "x"})
	_, err := Pack(t.Context(), dir, 1<<20)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "data/ has 2") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Pack(ctx, dir, DefaultLimit); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Pack(t.Context(), filepath.Join(dir, "none"), DefaultLimit); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
