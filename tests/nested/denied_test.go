package nested

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/hijack/abi"
)

// denied is a backend over a failing driver, with a context on its other GPU.
type denied struct {
	*backendTest
	driver *faultPlan
	other  gpu.Context
}

// TestDenied lets single driver calls fail with out of memory: those that the program of
// TestFailingDriver does not make. The operation must report it, leave nothing behind, and succeed
// the next time.
func TestDenied(t *testing.T) {
	if !ownProcess(t, failingDriver) {
		return
	}
	d := openDenied(t)
	for _, part := range []func(){
		d.opening, d.digests, d.shadows, d.reading, d.code, d.sharing, d.reclaiming, d.plainMemory, d.peers, d.visits,
		d.aliases, d.graphs, d.events, d.hosts,
		d.lateRefusals, d.goneMemory, d.completions,
	} {
		part()
		s := d.stream()
		d.submit(s, d.fill(0, 3))
		d.must(s.Synchronize())
		d.must(d.context.Fault())
		d.must(d.other.Fault())
	}
}

// failingDriver starts a phosd for ownProcess, with a failing driver in front of ours.
func failingDriver(t *testing.T) string {
	t.Setenv(otherLibrary, newFaultPlan(t).library)
	return innerPhosd(t)
}

// openDenied opens the backend over the failing driver, with a context on each GPU.
func openDenied(t *testing.T) *denied {
	t.Helper()
	d := &denied{backendTest: openBackend(t), driver: inheritedFaultPlan(t)}
	var err error
	d.other, err = d.backend.NewContext(1, gpu.ContextOptions{})
	d.must(err)
	return d
}

// ends maps calls that create something to the calls that destroy it.
var ends = map[string]string{
	"cuMemCreate": "cuMemRelease", "cuMemMap": "cuMemUnmap", "cuMemAddressReserve": "cuMemAddressFree",
	"cuMemHostRegister_v2": "cuMemHostUnregister", "cuGraphCreate": "cuGraphDestroy", "cuCtxCreate_v2": "cuCtxDestroy_v2",
}

// during runs do while the nth call of a name fails. It returns do's error and the numbers of
// driver calls.
func (d *denied) during(
	call string,
	nth uint64,
	how mode,
	code abi.Result,
	do func() error,
) (calls map[string]uint64, err error) {
	d.Helper()
	d.driver.fail(call, nth, how, code)
	err = do()
	calls, failed := d.driver.counts(), d.driver.failed()
	d.driver.reset()
	if failed == 0 {
		d.Errorf("%s: fewer calls than expected: %v", call, calls)
	}
	calls[call] -= failed
	return calls, err
}

// failsClean is during, and checks that everything that was created is destroyed too.
func (d *denied) failsClean(call string, nth uint64, how mode, code abi.Result, do func() error) error {
	d.Helper()
	calls, err := d.during(call, nth, how, code, do)
	calls["cuMemCreate"] += calls["cuMemImportFromShareableHandle"]
	for making, ending := range ends {
		if calls[making] != calls[ending] {
			d.Errorf("%s: %d times %s, and %d times %s", call, calls[making], making, calls[ending], ending)
		}
	}
	return err
}

// failsOnce lets the nth call of a name fail once. do must fail with that error, and succeed when
// it is repeated.
func (d *denied) failsOnce(call string, nth uint64, do func() error) {
	d.Helper()
	d.wantError(call, d.failsClean(call, nth, once, abi.OutOfMemory, do), abi.OutOfMemory, "")
	if err := do(); err != nil {
		d.Fatalf("retry after %s failed: %v", call, err)
	}
}

// wantError checks the code of an error and a part of its text.
func (d *denied) wantError(what string, err error, code abi.Result, words string) {
	d.Helper()
	if !errors.Is(err, code) || !strings.Contains(err.Error(), words) {
		d.Errorf("%s: got %v, want %s and %q", what, err, code, words)
	}
}

// newContext returns a new context on the first GPU.
func (d *denied) newContext(options gpu.ContextOptions) (context gpu.Context, end func()) {
	d.Helper()
	context, err := d.backend.NewContext(0, options)
	d.must(err)
	return context, func() { d.must(context.Close()) }
}

// chunks returns a range of a GPU's window behind the mapped memory.
func (d *denied) chunks(ordinal int, from, count uint64) gpu.Range {
	return gpu.Range{
		Address: d.backend.Devices()[ordinal].Window.Address + (8+from)*gpu.ChunkBytes,
		Bytes:   count * gpu.ChunkBytes,
	}
}

func (d *denied) open(options cuda.Options) (*cuda.Backend, error) {
	options.Library, options.Logger = d.driver.library, slog.New(slog.DiscardHandler)
	return cuda.Open(options)
}

// opening opens further backends on the same driver. The driver would run out of addresses if
// failed ones kept any.
func (d *denied) opening() {
	open := func() error {
		b, err := d.open(cuda.Options{})
		if err == nil {
			err = b.Close()
		}
		return err
	}
	for range 10 {
		_, err := d.during("cuMemGetAllocationGranularity", 2, once, abi.OutOfMemory, open)
		d.wantError("no granularity", err, abi.OutOfMemory, "GPU 1: query the granularity")
	}
	d.must(open())
	err := d.failsClean("cuMemAddressReserve", 1, alwaysThis, abi.OutOfMemory, open)
	d.wantError("no addresses", err, abi.NotSupported, "no free range of 68719476736 bytes")
	d.must(open())
	d.wantError("no attributes", d.failsClean("cuDeviceGetAttribute", 1, alwaysThis, abi.SystemNotReady, func() error {
		_, err := cuda.Probe(d.driver.library)
		return err
	}), abi.SystemNotReady, "query attributes")

	b, err := d.open(cuda.Options{})
	d.must(err)
	d.failsOnce("cuCtxCreate_v2", 1, func() error {
		if _, err := b.PrepareContext(0); err != nil {
			return err
		}
		context, err := b.NewContext(0, gpu.ContextOptions{})
		if err == nil {
			err = context.Close()
		}
		return err
	})
	// A window that cannot be released is kept.
	had, half := b.Devices()[0].Window, b.Devices()[0].Window
	half.Bytes /= 2
	move := func(window gpu.Range) error {
		context, err := b.NewContext(0, gpu.ContextOptions{Window: window})
		if err == nil {
			err = context.Close()
		}
		return err
	}
	_, err = d.during("cuMemAddressFree", 1, once, abi.OutOfMemory, func() error { return move(half) })
	d.wantError("to another window", err, abi.OutOfMemory, "release the addresses of GPU 0")
	d.must(move(had))
	d.must(move(half))
	d.must(b.Close())
}

// digests computes the first digests of a context, with too little memory in the driver or in the
// quota.
func (d *denied) digests() {
	ask := func(context gpu.Context) error {
		digester := context.Memory().(gpu.Digester)
		content := pattern(gpu.ChunkBytes)
		_, err := d.context.Memory().WriteAt(content, int64(d.memory.Address))
		d.must(err)
		got, err := digester.Digests(gpu.DigestKey{7}, []gpu.Range{{Address: d.memory.Address, Bytes: gpu.ChunkBytes}})
		if err == nil && got[0] != digester.DigestCopy(gpu.DigestKey{7}, content) {
			d.Error("got a different digest")
		}
		return err
	}
	for _, call := range []string{
		"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuModuleGetFunction", "cuStreamCreateWithPriority",
	} {
		context, end := d.newContext(gpu.ContextOptions{})
		d.failsOnce(call, 1, func() error { return ask(context) })
		end()
	}
	context, end := d.newContext(gpu.ContextOptions{})
	err := d.failsClean("cuMemAddressReserve", 1, alwaysThis, abi.OutOfMemory, func() error { return ask(context) })
	d.wantError("no addresses", err, abi.OutOfMemory, "memory for digests")
	d.must(ask(context))
	end()

	accounts, err := ledger.Create(
		filepath.Join(d.TempDir(), "ledger"),
		[]uint64{2 * gpu.ChunkBytes, 2 * gpu.ChunkBytes},
	)
	d.must(err)
	b, err := d.open(cuda.Options{Ledger: accounts})
	d.must(err)
	context, err = b.NewContext(0, gpu.ContextOptions{})
	d.must(err)
	memory, all := context.Memory(), gpu.Range{Address: b.Devices()[0].Window.Address, Bytes: 2 * gpu.ChunkBytes}
	first := gpu.Range{Address: all.Address, Bytes: gpu.ChunkBytes}
	second := gpu.Range{Address: first.End(), Bytes: gpu.ChunkBytes}
	d.must(memory.Map(first))
	d.must(memory.Map(second))
	digests := func() error {
		_, err := memory.(gpu.Digester).Digests(gpu.DigestKey{7}, []gpu.Range{all})
		return err
	}
	third := gpu.Range{Address: second.End(), Bytes: gpu.ChunkBytes}
	d.wantError("GPU whose quota is used up", memory.Map(third), abi.OutOfMemory, "")
	d.wantError("GPU whose quota is used up", digests(), abi.OutOfMemory, "memory for digests")
	d.must(memory.Unmap(second))
	d.wantError(
		"full GPU",
		d.failsClean("cuMemCreate", 1, once, abi.OutOfMemory, digests),
		abi.OutOfMemory,
		"memory for digests",
	)
	d.must(digests())
	if used, _ := accounts.Usage(0); used != 2*gpu.ChunkBytes {
		d.Errorf("%d bytes are still accounted", used)
	}
	d.must(b.Close())
	if used, _ := accounts.Usage(0); used != 0 {
		d.Errorf("%d bytes are accounted without an owner", used)
	}
	d.must(accounts.Close())
}

// shadows use memory that the program then needs; they must release it.
func (d *denied) shadows() {
	context, end := d.newContext(gpu.ContextOptions{})
	defer end()
	memory := context.Memory()
	var all []gpu.Shadows
	get := func() error {
		s, room, err := memory.(gpu.Shadower).NewShadows(1)
		if err == nil && room == 0 {
			d.Error("no memory for shadows")
		}
		if err == nil {
			all = append(all, s)
		}
		return err
	}
	d.failsOnce("cuStreamCreateWithPriority", 1, get)
	d.must(get())
	program := d.chunks(0, 0, 1)
	d.driver.fail("cuMemCreate", 1, once, abi.OutOfMemory)
	d.must(memory.Map(program))
	if counts := d.driver.counts(); counts["cuMemCreate"] != 2 || counts["cuMemRelease"] != 2 {
		d.Errorf("the program's mapping did not release two blocks of shadows: %v", counts)
	}
	d.driver.reset()
	for _, s := range all {
		d.must(s.Close())
	}
	d.must(memory.Unmap(program))
}

// reading reads through a context without a stream for it, and to pinned memory.
func (d *denied) reading() {
	context, end := d.newContext(gpu.ContextOptions{})
	defer end()
	const size = 2 * gpu.ChunkBytes // two pieces in flight together
	want := pattern(size)
	_, err := d.context.Memory().WriteAt(want, int64(d.memory.Address))
	d.must(err)
	got, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	d.must(err)
	defer func() { d.must(unix.Munmap(got)) }()
	read := func() error {
		clear(got)
		_, err := context.Memory().ReadAt(got, int64(d.memory.Address))
		if err == nil && !bytes.Equal(got, want) {
			d.Error("the copy differs")
		}
		return err
	}
	d.failsOnce("cuStreamCreateWithPriority", 1, read)
	calls, err := d.during("cuStreamSynchronize", 1, once, abi.OutOfMemory, read)
	d.wantError("read", err, abi.OutOfMemory, "")
	if calls["cuStreamSynchronize"] != 2 {
		d.Errorf("the buffers of both pieces were not waited for: %v", calls)
	}
	d.must(read())
	unpin, err := context.Memory().(gpu.Pinner).Pin(got)
	d.must(err)
	d.failsOnce("cuMemcpyDtoHAsync_v2", 1, read)
	d.must(unpin())
}

func (d *denied) code() {
	image := gpu.Image{PTX: []string{head + ".visible .global .u32 kept = 9;\n.visible .entry idle() { ret; }\n"}}
	load := func(image gpu.Image, options gpu.LoadOptions) gpu.Module {
		module, err := d.context.LoadModule(image, options)
		d.must(err)
		if _, err := module.Function("idle"); err != nil {
			d.Error(err)
		}
		return module
	}
	// The heap keeps its size. A driver may omit variables that no kernel uses.
	d.must(
		d.failsClean(
			"cuCtxSetLimit",
			1,
			once,
			abi.OutOfMemory,
			func() error { return load(image, gpu.LoadOptions{HeapBytes: 8 << 20}).Close() },
		),
	)
	for call, want := range map[string]int{"cuModuleGetGlobal_v2": 0, "": 1} {
		if call != "" {
			d.driver.fail(call, 1, once, abi.NotFound)
		}
		module := load(image, gpu.LoadOptions{})
		if got := len(module.Globals()); got != want {
			d.Errorf("got %d variables, want %d", got, want)
		}
		d.must(module.Close())
		d.driver.reset()
	}
	// Machine code for another GPU is linked again from its sources.
	several := gpu.Image{
		Whole: machineCode(90),
		PTX:   []string{image.PTX[0], head + ".visible .entry second() { ret; }\n"},
	}
	module := load(several, gpu.LoadOptions{})
	if _, err := module.Function("second"); err != nil {
		d.Error(err)
	}
	d.must(module.Close())
}
