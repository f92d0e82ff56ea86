package nested

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// mode is how the driver fails.
type mode uint32

const (
	once       mode = iota // one call
	fromThenOn             // that call, and all later calls of every name, as when a GPU has failed
	alwaysThis             // that call, and all later calls of its name
	hang                   // the call never returns
)

// faultPlan tells a driver which call fails. tests/workloads/fault/failing_driver.c describes the
// file.
type faultPlan struct {
	t     testing.TB
	calls []string // all calls that the backend may make
	file  *os.File
	// library is the failing driver.
	library string
	// nth is the number of the call that fails.
	nth uint64
}

// faultPlanVariable names the file. Its prefix is that of driver settings, so workers receive it.
const faultPlanVariable = "CUDA_TEST_ORDERS"

// The layout of the file.
const (
	atArmed, atCall, atCode, atMode, atNth, atFailed, atCounts = 0, 4, 8, 12, 16, 24, 32
)

// newFaultPlan builds the failing driver.
func newFaultPlan(t testing.TB) *faultPlan {
	t.Helper()
	o := &faultPlan{t: t, calls: driverCalls(t)}
	var list strings.Builder
	for _, name := range o.calls {
		list.WriteString("X(" + name + ")")
	}
	o.library = frontOfOurs(t, "failing_driver.c", "-DCALLS="+list.String())
	path := filepath.Join(t.TempDir(), "orders")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	o.file = file
	if err := file.Truncate(int64(atCounts + 8*len(o.calls))); err != nil {
		t.Fatal(err)
	}
	t.Setenv(faultPlanVariable, path)
	return o
}

// inheritedFaultPlan opens the plan of the parent process, for tests that run in their own process.
func inheritedFaultPlan(t testing.TB) *faultPlan {
	t.Helper()
	file, err := os.OpenFile(os.Getenv(faultPlanVariable), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &faultPlan{t: t, calls: driverCalls(t), file: file, library: library()}
}

// driverCalls lists the calls that the backend for real GPUs uses, as found in its sources.
func driverCalls(t testing.TB) []string {
	t.Helper()
	var calls []string
	for file, form := range map[string]string{
		"zz_calls.go": `\t\{"(cu\w+)", (?:true|false)\}`, "table.h": `X\(PHOS_\w+, "(cu\w+)"\)`,
	} {
		text, err := os.ReadFile(harness.Path("cgo", "cudadrv", file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Fatalf("found no calls in %s", file)
		}
		for _, match := range found {
			calls = append(calls, match[1])
		}
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

func (o *faultPlan) write(at int64, data []byte) {
	o.t.Helper()
	if _, err := o.file.WriteAt(data, at); err != nil {
		o.t.Fatal(err)
	}
}

// words writes 32-bit words at an offset of the file.
func (o *faultPlan) words(at int64, values ...uint32) {
	o.t.Helper()
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	o.write(at, data)
}

// reset lets all calls succeed, and counts from 0.
func (o *faultPlan) reset() {
	o.t.Helper()
	o.words(atArmed, 0)
	o.write(atFailed, make([]byte, 8+8*len(o.calls)))
}

// fail lets the nth call of a name, counted from now on, fail.
func (o *faultPlan) fail(name string, nth uint64, how mode, code abi.Result) {
	o.t.Helper()
	o.reset()
	o.nth = nth
	o.words(atCall, uint32(slices.Index(o.calls, name)), uint32(code), uint32(how))
	o.write(atNth, binary.LittleEndian.AppendUint64(nil, nth))
	o.words(atArmed, 1)
}

// failed returns the number of failed calls.
func (o *faultPlan) failed() uint64 { return o.number(atFailed) }

// counts returns the number of calls for each name.
func (o *faultPlan) counts() map[string]uint64 {
	o.t.Helper()
	counts := map[string]uint64{}
	for i, name := range o.calls {
		if n := o.number(int64(atCounts + 8*i)); n > 0 {
			counts[name] = n
		}
	}
	return counts
}

// number reads a 64-bit number at an offset of the file.
func (o *faultPlan) number(at int64) uint64 {
	o.t.Helper()
	var data [8]byte
	if _, err := o.file.ReadAt(data[:], at); err != nil {
		o.t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(data[:])
}
