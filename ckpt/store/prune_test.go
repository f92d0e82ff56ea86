package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// drawn returns a generation with contents from a small set, so that generations share some.
func drawn(random *rand.Rand, compress bool) saved {
	what := saved{files: map[string][]byte{}, compress: compress}
	draw := func() []byte {
		n := random.Uint64N(40)
		if n%8 == 0 {
			return []byte(strings.Repeat("stock", 300+int(n)))
		}
		return noise(n, 200+int(n)*3000)
	}
	for range random.IntN(12) {
		what.memory = append(what.memory, draw())
	}
	for _, name := range []string{"a", "b", "c"}[:random.IntN(4)] {
		what.files[name] = draw()
	}
	return what
}

// TestPruneAgainstModel saves and prunes at random. Kept generations must match the model byte by
// byte.
func TestPruneAgainstModel(t *testing.T) {
	for seed := range uint64(rounds.Of(2, 8)) {
		random := rand.New(rand.NewPCG(seed, 7))
		path := t.TempDir()
		d := initDir(t, path)
		model := map[uint64]saved{}
		for range 30 {
			if random.IntN(3) > 0 || len(model) == 0 {
				what := drawn(random, random.IntN(2) == 0)
				model[put(t, d, what)] = what
				continue
			}
			keep := Keep{Newest: random.IntN(len(model) + 1)}
			for n := range model {
				if random.IntN(3) == 0 {
					keep.Generations = append(keep.Generations, n)
				}
			}
			pruneModel(t, d, model, keep)
			if found := problems(t, path); len(found) > 0 {
				t.Fatalf("seed %d: after a prune: %v", seed, found)
			}
		}
		for n, what := range model {
			check(t, d, n, what)
		}
		if _, bytes, needed, err := d.Sizes(context.Background()); err != nil || needed > bytes {
			t.Errorf("%d bytes needed of %d, %v", needed, bytes, err)
		}
	}
}

func pruneModel(t *testing.T, d *Dir, model map[uint64]saved, keep Keep) {
	t.Helper()
	all, err := d.Generations()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(keep.Generations)
	want = append(want, all[len(all)-keep.Newest:]...)
	slices.Sort(want)
	want = slices.Compact(want)
	plan, bad := d.PlanPrune(context.Background(), keep)
	done, err := d.Prune(context.Background(), keep)
	if len(want) == 0 {
		if !errors.Is(err, ErrNoGeneration) || !errors.Is(bad, ErrNoGeneration) {
			t.Fatalf("prune of everything: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if bad != nil || !slices.Equal(plan.Removed, done.Removed) || plan.PacksRemoved != done.PacksRemoved ||
		plan.PacksRewritten != done.PacksRewritten || plan.FreedBytes+64*image.PageBytes < done.FreedBytes {
		t.Fatalf("planned %+v (%v), done %+v", plan, bad, done)
	}
	left, err := d.Generations()
	if err != nil || !slices.Equal(left, want) || !slices.Equal(done.Kept, want) {
		t.Fatalf("kept %v (%v, says %v), want %v", left, err, done.Kept, want)
	}
	for n := range model {
		if !slices.Contains(want, n) {
			delete(model, n)
		}
	}
	for n, what := range model {
		check(t, d, n, what)
	}
}

// TestPruneFreesSpace: mostly dead packs are rewritten, dead ones removed, shared contents
// kept.
func TestPruneFreesSpace(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	first := saved{memory: [][]byte{noise(1, 1<<20), noise(2, 1<<20), noise(3, 1<<20)}}
	second := saved{memory: [][]byte{noise(1, 1<<20), noise(5, 1<<20), noise(6, 1<<20)}}
	put(t, d, first)
	put(t, d, second)
	before := packBytes(t, path)
	done, err := d.Prune(context.Background(), Keep{Newest: 1})
	if err != nil {
		t.Fatal(err)
	}
	check(t, d, 2, second)
	after := packBytes(t, path)
	if freed := before - after; freed < 2<<20 || done.PacksRewritten == 0 {
		t.Errorf("freed %d bytes, rewritten %d packs: %+v", freed, done.PacksRewritten, done)
	}
	if after > 3<<20+64<<10 {
		t.Errorf("%d bytes left for 3 MiB", after)
	}
}

func packBytes(t *testing.T, path string) (total int) {
	for name, content := range filesOf(t, path) {
		if strings.HasPrefix(name, packsName) {
			total += len(content)
		}
	}
	return total
}

func TestPruneRefusesDamage(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	put(t, d, small(2))
	before := filesOf(t, path)
	packs, err := filepath.Glob(filepath.Join(path, packsName, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		if err := os.Rename(pack, pack+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Prune(context.Background(), Keep{Newest: 2}); !errors.Is(err, contents.ErrMissing) {
			t.Errorf("prune with a missing pack: %v", err)
		}
		if err := os.Rename(pack+".away", pack); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Prune(context.Background(), Keep{Generations: []uint64{9}}); !errors.Is(err, ErrNoGeneration) {
		t.Errorf("keep of a missing generation: %v", err)
	}
	same(t, before, filesOf(t, path))
}

// same compares two listings of an image.
func same(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	for name, content := range before {
		if now, there := after[name]; !there || string(now) != string(content) {
			t.Errorf("%s changed (exists: %v)", name, there)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("unexpected file %s", name)
		}
	}
}

// TestPruneKeepsTheGoodCopy: of two copies of a content, the undamaged one is kept.
func TestPruneKeepsTheGoodCopy(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	content := noise(4, 5000)
	ctx := context.Background()
	for range 2 {
		transaction, err := d.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// Without a known reader both generations write everything.
		m, err := fill(ctx, transaction, nil, saved{memory: [][]byte{content}})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := image.SealManifest(m, testKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := transaction.Commit(ctx, sealed); err != nil {
			t.Fatal(err)
		}
	}
	packs, _ := filepath.Glob(filepath.Join(path, packsName, "*"))
	for _, pack := range packs {
		raw, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(string(raw), string(content)); at >= 0 {
			raw[at] ^= 1
			overwrite(t, pack, raw)
			break
		}
	}
	if _, err := d.Prune(ctx, Keep{Newest: 1}); err != nil {
		t.Fatal(err)
	}
	check(t, d, 2, saved{memory: [][]byte{content}})
}
