package capture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// benchChunks is how much device memory the benchmarks use: 1 GiB, or PHOS_BENCH_MIB.
func benchChunks(b *testing.B) int {
	b.Helper()
	text := os.Getenv("PHOS_BENCH_MIB")
	if text == "" {
		return 512
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n / 2
}

// noisy returns a machine with incompressible memory.
func noisy(b *testing.B, options string) *machine {
	b.Helper()
	chunks := benchChunks(b)
	m := openMachine(b, fmt.Sprintf("soft:1,memory=%dMiB%s", chunks*2+64, options), chunks)
	content := make([]byte, gpu.ChunkBytes)
	random := rand.NewChaCha8([32]byte{1})
	for at := m.ranges[0].Address; at < m.ranges[0].End(); at += gpu.ChunkBytes {
		_, _ = random.Read(content)
		_, err := m.memory.WriteAt(content, int64(at))
		must(b, err)
	}
	return m
}

// pack is a pack in a real directory.
type pack struct {
	*contents.Writer
	path string
}

func openPack(b *testing.B, known ...string) *pack {
	b.Helper()
	folder, err := os.Open(b.TempDir())
	must(b, err)
	defer folder.Close()
	dir, err := store.Init(folder)
	must(b, err)
	b.Cleanup(dir.Close)
	transaction, err := dir.Begin(context.Background())
	must(b, err)
	b.Cleanup(func() { _ = transaction.Abort() })
	file, err := transaction.NewPack()
	must(b, err)
	b.Cleanup(func() { _ = file.Close() })
	var old []*os.File
	for _, path := range known {
		f, err := os.Open(path)
		must(b, err)
		b.Cleanup(func() { _ = f.Close() })
		old = append(old, f)
	}
	reader, err := contents.NewReader(old)
	must(b, err)
	return &pack{contents.NewWriter(file, reader, contents.WriterOptions{}), file.Name()}
}

// stopTheWorld saves everything while nothing runs.
func (m *machine) stopTheWorld(target *pack) time.Duration {
	began := time.Now()
	s, err := New(m.sources).Begin(target, Options{Direct: true})
	must(m.t, err)
	must(m.t, s.Cut(context.Background()))
	_, err = s.Finish(context.Background())
	must(m.t, err)
	must(m.t, target.Close())
	return time.Since(began)
}

// concurrently saves everything while the program runs.
func (m *machine) concurrently(c *Capture, target *pack, options Options) (total, pause time.Duration, stats Stats) {
	began := time.Now()
	s, err := c.Begin(target, options)
	must(m.t, err)
	must(m.t, s.Precopy(context.Background()))
	cut := time.Now()
	must(m.t, s.Cut(context.Background()))
	pause = time.Since(cut)
	_, err = s.Finish(context.Background())
	must(m.t, err)
	must(m.t, target.Close())
	return time.Since(began), pause, s.Stats()
}

// rewrite changes memory at a rate, chunk after chunk, until it is stopped.
func (m *machine) rewrite(chunksPerSecond float64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		began, r := time.Now(), rand.New(rand.NewPCG(1, 1))
		content := make([]byte, gpu.ChunkBytes)
		for n := 0; ctx.Err() == nil; n++ {
			_, _ = m.memory.WriteAt(
				content[:4096+r.IntN(1<<20)],
				int64(m.ranges[0].Address)+int64(r.IntN(int(m.ranges[0].Bytes)-gpu.ChunkBytes)),
			)
			content[r.IntN(len(content))]++
			select {
			case <-time.After(time.Until(began.Add(time.Duration(float64(n+1) / chunksPerSecond * float64(time.Second))))):
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func remove(b *testing.B, p *pack) {
	b.Helper()
	must(b, os.Truncate(p.path, 0))
}

// BenchmarkPause measures the pause of a checkpoint of a running program, relative to a dump that
// stops the program, for several rates of writing; and that dump relative to cp.
func BenchmarkPause(b *testing.B) {
	m := noisy(b, "")
	second := openPack(b)
	m.stopTheWorld(second)
	remove(b, second)
	for _, percent := range []float64{1, 10, 100} {
		b.Run(fmt.Sprintf("%v%%", percent), func(b *testing.B) {
			var stop, pause, total, cp time.Duration
			for b.Loop() {
				whole := openPack(b)
				stop += m.stopTheWorld(whole)
				copied := filepath.Join(b.TempDir(), "copy")
				began := time.Now()
				must(b, exec.Command("cp", "--reflink=never", whole.path, copied).Run())
				cp += time.Since(began)
				must(b, os.Remove(copied))
				remove(b, whole)

				p := openPack(b)
				end := m.rewrite(percent / 100 * float64(benchChunks(b)))
				// The program need not be paused for this measurement: a running writer only makes
				// the result inconsistent.
				whileRunning, cut, _ := m.concurrently(New(m.sources), p, Options{})
				end()
				total += whileRunning
				pause += cut
				remove(b, p)
			}
			b.ReportMetric(float64(pause)/float64(stop), "pause/stop")
			b.ReportMetric(float64(cp)/float64(stop), "stop-speed/cp")
			b.ReportMetric(float64(total)/float64(stop), "total/stop")
			b.ReportMetric(float64(m.ranges[0].Bytes)*float64(b.N)/stop.Seconds()/1e9, "GB/s-stopped")
		})
	}
}

// BenchmarkSteps measures the step rate of a program that uses one core during a checkpoint,
// relative to the normal rate.
func BenchmarkSteps(b *testing.B) {
	m := noisy(b, ",cores=1")
	stream, err := m.context.NewStream(gpu.StreamOptions{})
	must(b, err)
	area := gpu.Range{Address: m.ranges[0].Address, Bytes: 16 * gpu.ChunkBytes}
	step := func(n int) {
		must(b, stream.Submit(m.launch(area, uint32(n), 2000)))
		must(b, stream.Synchronize())
	}
	var with, without float64
	var copied uint64
	var taken time.Duration
	for b.Loop() {
		began, steps := time.Now(), 0
		for time.Since(began) < time.Second {
			step(steps)
			steps++
		}
		without += float64(steps) / time.Since(began).Seconds()

		p := openPack(b)
		ended := make(chan struct{})
		began, steps = time.Now(), 0
		go func() {
			defer close(ended)
			total, _, stats := m.concurrently(New(m.sources), p, Options{})
			taken += total
			copied += stats.MemoryBytes
		}()
		for running := true; running; steps++ {
			step(steps)
			select {
			case <-ended:
				running = false
			default:
			}
		}
		with += float64(steps) / time.Since(began).Seconds()
		remove(b, p)
	}
	b.ReportMetric(with/without, "steps-during/without")
	b.ReportMetric(float64(copied)/taken.Seconds()/1e9, "GB/s")
}

// BenchmarkMarks measures the step rate with dirty tracking, relative to the rate without, when no
// checkpoint is taken.
func BenchmarkMarks(b *testing.B) {
	const steps = 40
	var machines [2]*machine
	var streams [2]gpu.Stream
	for i, spec := range []string{"soft:1,memory=256MiB,cores=1", "soft:1,memory=256MiB,cores=1,marks=off"} {
		machines[i] = openMachine(b, spec, 32)
		var err error
		streams[i], err = machines[i].context.NewStream(gpu.StreamOptions{})
		must(b, err)
	}
	var times [2]time.Duration
	for n := 0; b.Loop(); n++ {
		for turn := range 2 {
			i := (turn + n) % 2
			began := time.Now()
			for step := range steps {
				must(b, streams[i].Submit(machines[i].launch(machines[i].ranges[0], uint32(step), 500)))
			}
			must(b, streams[i].Synchronize())
			times[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(times[1])/float64(times[0]), "steps-marked/unmarked")
}

// BenchmarkSecond measures what a second checkpoint into the same directory writes after one chunk
// in a hundred has changed.
func BenchmarkSecond(b *testing.B) {
	m := noisy(b, "")
	c := New(m.sources)
	first := openPack(b)
	took, _, before := m.concurrently(c, first, Options{})
	packs := []string{first.path}
	var written, again float64
	for n := 0; b.Loop(); n++ {
		for range benchChunks(b) / 100 {
			at := m.ranges[0].Address + rand.Uint64N(m.ranges[0].Bytes)
			must(b, write(m, at, byte(rand.Uint32())))
		}
		p := openPack(b, packs...)
		total, _, stats := m.concurrently(c, p, Options{})
		written += float64(stats.WrittenBytes)
		again += total.Seconds()
		packs = append(packs, p.path)
	}
	b.ReportMetric(written/float64(b.N)/float64(before.WrittenBytes), "bytes-second/first")
	b.ReportMetric(again/float64(b.N)/took.Seconds(), "time-second/first")
}

// BenchmarkDigests measures the speed of each way to detect changes.
func BenchmarkDigests(b *testing.B) {
	for name, options := range map[string]string{"marks": "", "digests": ",marks=off"} {
		b.Run(name, func(b *testing.B) {
			m := noisy(b, options)
			target := newShelf()
			c := New(func() []Source { return m.sources()[:1] })
			s, err := c.Begin(forgetful{target}, Options{})
			must(b, err)
			must(b, s.Precopy(b.Context()))
			b.SetBytes(int64(m.ranges[0].Bytes))
			for b.Loop() {
				must(b, s.Cut(b.Context()))
			}
			s.Abort()
		})
	}
}

// forgetful keeps digests but no contents.
type forgetful struct{ *shelf }

func (f forgetful) Put(_ context.Context, content []byte) (image.Hash, bool, error) {
	hash := image.Sum(content)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contents[hash] = nil
	return hash, true, nil
}
