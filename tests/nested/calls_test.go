package nested

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestNoContext makes each call that needs a context while the driver cannot make it current. The
// call must not reach the driver, because it would run in the thread's current context.
func TestNoContext(t *testing.T) {
	if !ownProcess(t, failingDriver) {
		return
	}
	o := inheritedFaultPlan(t)
	driver, err := cudadrv.Open(o.library)
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(driver)
	tested := 0
	for i := range value.NumMethod() {
		name, method := value.Type().Method(i).Name, value.Method(i)
		if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[cudadrv.Context]() ||
			name == "CtxDestroy" ||
			name == "End" {
			continue // it needs no context, or destroys one
		}
		tested++
		for _, shape := range []cudadrv.Shape{{}, {Attributes: make([]abi.LaunchAttribute, 1)}} {
			o.fail("cuCtxSetCurrent", 1, alwaysThis, abi.OutOfMemory)
			results := method.Call(arguments(method.Type(), shape))
			if err, _ := results[len(results)-1].Interface().(error); !errors.Is(err, abi.OutOfMemory) {
				t.Errorf("%s: got error %v", name, err)
			}
			if calls := o.counts(); len(calls) != 1 || calls["cuCtxSetCurrent"] != 1 {
				t.Errorf("%s made the calls %v", name, calls)
			}
		}
	}
	if tested < 50 {
		t.Errorf("only %d calls were tested", tested)
	}
}

// arguments returns valid arguments for a method, with this shape if it takes one.
func arguments(method reflect.Type, shape cudadrv.Shape) []reflect.Value {
	var all []reflect.Value
	for i := range method.NumIn() {
		switch in := method.In(i); {
		case in == reflect.TypeFor[cudadrv.Context]():
			all = append(all, reflect.ValueOf(cudadrv.Context(64)))
		case in == reflect.TypeFor[cudadrv.Shape]():
			all = append(all, reflect.ValueOf(shape))
		case in.Kind() == reflect.Slice:
			all = append(all, reflect.MakeSlice(in, 1, 1))
		case in.Kind() == reflect.Pointer:
			all = append(all, reflect.New(in.Elem()))
		default:
			all = append(all, reflect.Zero(in))
		}
	}
	return all
}

// TestContextLost lets a method make two calls. In between all threads lose their current context,
// so it must be set again.
func TestContextLost(t *testing.T) {
	if !ownProcess(t, failingDriver) {
		return
	}
	o := inheritedFaultPlan(t)
	driver, context, module := loadCode(t, o.library, codeOf(0))
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			default:
				_ = driver.End(0) // there is none
			}
		}
	}()
	(&backendTest{T: t}).waitFor("the second call was not made without a context", func() bool {
		o.fail("cuCtxSetCurrent", 2, once, abi.OutOfMemory)
		_, err := driver.ModuleFunctions(context, module)
		calls := o.counts()
		if calls["cuCtxSetCurrent"] < 2 {
			return false // lost too early or too late
		}
		if !errors.Is(err, abi.OutOfMemory) || calls["cuModuleEnumerateFunctions"] > 0 {
			t.Errorf("%v, after %v", err, calls)
		}
		return true
	})
	close(ended)
	<-done
}

// TestManyDevices gives more devices access to memory than one call can name.
func TestManyDevices(t *testing.T) {
	if !ownProcess(t, failingDriver) {
		return
	}
	d := openDenied(t)
	driver, err := cudadrv.Open(d.driver.library)
	d.must(err)
	d.driver.fail("cuMemSetAccess", 2, once, abi.OutOfMemory)
	err = driver.Allow(d.memory.Address, d.memory.Bytes, make([]int32, 33))
	d.wantError("the second part", err, abi.OutOfMemory, "")
	d.must(driver.Allow(d.memory.Address, d.memory.Bytes, make([]int32, 33)))
	if calls := d.driver.counts()["cuMemSetAccess"]; calls != 4 {
		t.Errorf("got %d calls", calls)
	}
}

// TestAttributes launches kernels with an attribute, one with parameters and one without.
func TestAttributes(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	const code = head + `.visible .global .u32 word;
.visible .entry none() { .reg .b32 %r; mov.u32 %r, 1; st.global.u32 [word], %r; ret; }
.visible .entry some(.param .u32 value) { .reg .b32 %r; ld.param.u32 %r, [value]; st.global.u32 [word], %r; ret; }
`
	driver, context, module := loadCode(t, library(), code)
	must := (&backendTest{T: t}).must
	address, _, err := driver.ModuleGetGlobal(context, module, "word")
	must(err)
	shape := cudadrv.Shape{
		Grid:       [3]uint32{1, 1, 1},
		Block:      [3]uint32{1, 1, 1},
		Attributes: []abi.LaunchAttribute{{ID: abi.LaunchPriority}},
	}
	word, err := driver.HostAlloc(context, 4)
	must(err)
	for name, params := range map[string][]byte{"none": nil, "some": {2, 3, 4, 5}} {
		function, err := driver.ModuleGetFunction(context, module, name)
		must(err)
		must(driver.Launch(context, function, shape, params, 0))
		must(driver.CopyOut(context, word, address, 0))
		must(driver.StreamSynchronize(context, 0))
		if want := append(params, 1, 0, 0, 0)[:4]; !slices.Equal(word, want) {
			t.Errorf("the kernel with %s wrote %x", name, word)
		}
	}
}

// TestNoLibrary: the error names the reason why a driver cannot be opened.
func TestNoLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if !ownProcess(t, func(*testing.T) string { return "" }) {
		return
	}
	if _, err := cudadrv.Open(path); !errors.Is(err, cudadrv.ErrLibrary) || !errors.Is(err, cudadrv.ErrAbsent) ||
		!strings.Contains(err.Error(), path+": cannot open shared object file") {
		t.Errorf("got %v", err)
	}
}

// loadCode opens a driver and loads code.
func loadCode(t *testing.T, library, code string) (*cudadrv.Driver, cudadrv.Context, cudadrv.Module) {
	t.Helper()
	driver, err := cudadrv.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	context, err := driver.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	module, log, err := driver.ModuleLoad(context, append([]byte(code), 0))
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	return driver, context, module
}

// enumerate is a call that drivers before CUDA 12.4 lack.
const enumerate = "cuModuleEnumerateFunctions"

// TestOldDriver uses a driver without the optional calls. Each call reports that, and the backend
// works without it.
func TestOldDriver(t *testing.T) {
	t.Run("all", func(t *testing.T) {
		if !ownProcess(
			t,
			lacking(slices.Concat(optionalCalls(t), []string{enumerate, "cuTensorMapEncodeIm2colWide"})),
		) {
			return
		}
		driver, context, module := loadCode(t, library(), codeOf(0))
		function, err := driver.ModuleGetFunction(context, module, "fill")
		if err != nil {
			t.Fatal(err)
		}
		_, functions := driver.ModuleFunctions(context, module)
		_, name := driver.FunctionName(context, function)
		_, _, param := driver.FuncGetParamInfo(context, function, 0)
		_, wide := driver.TensorMap(context, &abi.TensorMap{Kind: abi.TensorIm2colWide})
		for what, err := range map[string]error{
			"functions": functions, "name": name, "parameter": param, "tensor": wide,
			"write 32": driver.StreamWriteValue32(context, 0, 0, 0, 0),
			"write 64": driver.StreamWriteValue64(context, 0, 0, 0, 0),
			"wait 32":  driver.StreamWaitValue32(context, 0, 0, 0, 0), "wait 64": driver.StreamWaitValue64(context, 0, 0, 0, 0),
		} {
			if !errors.Is(err, abi.NotSupported) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		b := openBackend(t)
		_, err = b.context.LoadModule(gpu.Image{PTX: []string{codeOf(0)}}, gpu.LoadOptions{})
		b.must(err)
		s := b.stream()
		b.submit(s, b.fill(0, 3))
		b.must(s.Synchronize())
	})
	t.Run(enumerate, func(t *testing.T) {
		if !ownProcess(t, lacking([]string{enumerate})) {
			return
		}
		driver, context, module := loadCode(t, library(), codeOf(0))
		if functions, err := driver.ModuleFunctions(context, module); !errors.Is(err, abi.NotSupported) {
			t.Errorf("%v, %v", functions, err)
		}
	})
}

// optionalCalls lists the generated calls that a driver may lack.
func optionalCalls(t *testing.T) (calls []string) {
	t.Helper()
	text, err := os.ReadFile(harness.Path("cgo", "cudadrv", "zz_calls.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`\t\{"(cu\w+)", true\}`).FindAllStringSubmatch(string(text), -1) {
		calls = append(calls, match[1])
	}
	if len(calls) == 0 {
		t.Fatal("found no optional calls")
	}
	return calls
}

// lacking starts a phosd for ownProcess, with a driver in front of ours that lacks calls.
func lacking(missing []string) func(*testing.T) string {
	return func(t *testing.T) string {
		var list strings.Builder
		for _, name := range driverCalls(t) {
			if !slices.Contains(missing, name) {
				list.WriteString("X(" + name + ")")
			}
		}
		t.Setenv(
			otherLibrary,
			harness.Compile(
				t,
				harness.GCC,
				"-std=gnu11",
				"-O1",
				"-Wall",
				"-shared",
				"-fPIC",
				"-DCALLS="+list.String(),
				"-DOTHER="+filepath.Join(
					harness.Bin(),
					"libphos.so",
				),
				harness.Workload("fault", "old_driver.c"),
				"-ldl",
			),
		)
		return oneGPU(t)
	}
}

// TestTensorMaps describes tensors of each kind to the inner driver, which uses our own form of
// descriptors. No field may receive another field's value.
func TestTensorMaps(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	b := openBackend(t)
	mapper := b.context.(gpu.TensorMapper)
	tensor := abi.TensorMap{
		DataType: 7, Rank: 5, Address: b.memory.Address, Sizes: [5]uint64{64, 65, 66, 67, 68},
		Strides: [4]uint64{1024, 2048, 4096, 8192},
		Steps:   [5]uint64{1, 2, 3, 4, 5}, Swizzle: 1, Promotion: 2, Fill: 1,
	}
	for kind, more := range []func(*abi.TensorMap){
		abi.TensorTiled: func(t *abi.TensorMap) { t.Box = [5]uint64{8, 9, 10, 11, 12} },
		abi.TensorIm2col: func(t *abi.TensorMap) {
			t.Lower, t.Upper, t.Channels, t.Pixels = [3]int64{-1, -2, -3}, [3]int64{4, 5, 6}, 16, 32
		},
		abi.TensorIm2colWide: func(t *abi.TensorMap) {
			t.Lower[0], t.Upper[0], t.Channels, t.Pixels, t.Mode = -7, 8, 48, 64, 1
		},
	} {
		tensor := tensor
		tensor.Kind = uint64(kind)
		more(&tensor)
		want, err := model.EncodeTensor(&tensor)
		b.must(err)
		got, err := mapper.EncodeTensorMap(&tensor)
		b.must(err)
		if got != want {
			t.Errorf("tensor of kind %d: got\n%x, want\n%x", kind, got, want)
		}
		tensor.Address += 4096
		want, err = model.EncodeTensor(&tensor)
		b.must(err)
		if got, err = mapper.ReplaceAddress(got, tensor.Address); err != nil || got != want {
			t.Errorf("tensor of kind %d at another address: %v: got\n%x, want\n%x", kind, err, got, want)
		}
	}
}
