package store

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// missing sends a generation without what some images have, and returns the stream.
func missing(t *testing.T, from *Dir, others ...*Dir) []byte {
	t.Helper()
	has := map[image.Hash]struct{}{}
	for _, d := range others {
		if err := d.AddContents(has); err != nil {
			t.Fatal(err)
		}
	}
	var stream bytes.Buffer
	if err := WriteMissing(t.Context(), from, 0, has, &stream); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

// TestRounds: a receiver that gets one generation after the other becomes whole, although contents
// come back that only a generation which it did not get has needed.
func TestRounds(t *testing.T) {
	first, second := noise(1, image.ChunkBytes), noise(2, image.ChunkBytes)
	from, to := initDir(t, t.TempDir()), initDir(t, t.TempDir())
	has := map[image.Hash]struct{}{}
	for i, memory := range [][]byte{first, second, first, second} {
		put(t, from, saved{memory: [][]byte{memory}})
		if i == 1 {
			continue // it is not sent
		}
		var stream bytes.Buffer
		if err := WriteMissing(t.Context(), from, 0, has, &stream); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadStream(t.Context(), &stream, to); err != nil {
			t.Errorf("generation %d: %v", i+1, err)
		}
	}
}

// TestMissing: what the receiver has in other images is not sent, and the generation is as whole as
// when all is sent. It no longer needs the other images.
func TestMissing(t *testing.T) {
	common := [][]byte{noise(1, image.ChunkBytes), noise(2, image.ChunkBytes), noise(3, 1000)}
	mine := saved{memory: append(common[:len(common):len(common)], noise(4, image.ChunkBytes)), compress: true}
	from := initDir(t, t.TempDir())
	put(t, from, mine)
	twinPath := t.TempDir()
	twin := initDir(t, twinPath)
	put(t, twin, saved{memory: append(common[:len(common):len(common)], noise(5, image.ChunkBytes))})

	whole, rest := missing(t, from), missing(t, from, twin)
	if extra := len(rest) - image.ChunkBytes; extra < 0 || extra > 100<<10 || len(whole) < 3*image.ChunkBytes {
		t.Errorf("sent %d bytes of %d, want one chunk and little more", len(rest), len(whole))
	}
	path := t.TempDir()
	to := initDir(t, path)
	if n, err := ReadMissing(t.Context(), bytes.NewReader(rest), to, []*Dir{twin}); err != nil || n != 1 {
		t.Fatalf("generation %d, %v", n, err)
	}
	if err := os.RemoveAll(twinPath); err != nil {
		t.Fatal(err)
	}
	check(t, to, 1, mine)
	if found := problems(t, path); len(found) > 0 {
		t.Error(found)
	}
}

// TestMissingTwice: a receiver that has all of a generation gets none of its contents.
func TestMissingTwice(t *testing.T) {
	from := initDir(t, t.TempDir())
	put(t, from, sample(2))
	other := initDir(t, t.TempDir())
	put(t, other, sample(2))
	rest := missing(t, from, other)
	if len(rest) > 10<<10 {
		t.Errorf("sent %d bytes", len(rest))
	}
	to := initDir(t, t.TempDir())
	if _, err := ReadMissing(t.Context(), bytes.NewReader(rest), to, []*Dir{other}); err != nil {
		t.Fatal(err)
	}
	check(t, to, 1, sample(2))
}

// TestMissingIsMissed: a stream without contents that no other image has is refused, and leaves
// nothing.
func TestMissingIsMissed(t *testing.T) {
	from := initDir(t, t.TempDir())
	put(t, from, sample(2))
	rest := missing(t, from, from)
	for _, others := range [][]*Dir{nil, {initDir(t, t.TempDir())}} {
		path := t.TempDir()
		to := initDir(t, path)
		if _, err := ReadMissing(t.Context(), bytes.NewReader(rest), to, others); !errors.Is(err, contents.ErrMissing) {
			t.Errorf("with %d others: %v", len(others), err)
		}
		if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
			t.Errorf("with %d others: left %v, %v", len(others), left, err)
		}
	}
}
