package nesting

import (
	"errors"
	"reflect"
	"testing"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestNoContext makes each call that needs a context while the driver makes none current: nothing is called then, because it would be in
// whichever context the thread has.
func TestNoContext(t *testing.T) {
	if !ownProcess(t, failingDriver) {
		return
	}
	o := givenOrders(t)
	driver, err := cudadrv.Open(o.library)
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(driver)
	tested := 0
	for i := range value.NumMethod() {
		name, method := value.Type().Method(i).Name, value.Method(i)
		if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[cudadrv.Context]() || name == "CtxDestroy" || name == "End" {
			continue // it is in no context, or ends one
		}
		tested++
		for _, shape := range []cudadrv.Shape{{}, {Attributes: make([]abi.LaunchAttribute, 1)}} {
			o.fail("cuCtxSetCurrent", 1, alwaysThis, abi.OutOfMemory)
			results := method.Call(arguments(method.Type(), shape))
			if err, _ := results[len(results)-1].Interface().(error); !errors.Is(err, abi.OutOfMemory) {
				t.Errorf("%s says %v", name, err)
			}
			if calls := o.counts(); len(calls) != 1 || calls["cuCtxSetCurrent"] != 1 {
				t.Errorf("%s calls %v", name, calls)
			}
		}
	}
	if tested < 50 {
		t.Errorf("only %d calls are in a context", tested)
	}
}

// arguments are some for a method, with this shape where it wants one. They point somewhere.
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

// TestTensorMaps describes tensors of each kind to the driver behind the driver, which has our own form of descriptions. No word of a
// description is another's value.
func TestTensorMaps(t *testing.T) {
	if !ownProcess(t, inner) {
		return
	}
	b := openBehind(t)
	mapper := b.context.(gpu.TensorMapper)
	tensor := abi.TensorMap{
		DataType: 7, Rank: 5, Address: b.memory.Address, Sizes: [5]uint64{64, 65, 66, 67, 68}, Strides: [4]uint64{1024, 2048, 4096, 8192},
		Steps: [5]uint64{1, 2, 3, 4, 5}, Swizzle: 1, Promotion: 2, Fill: 1,
	}
	for kind, more := range []func(*abi.TensorMap){
		abi.TensorTiled: func(t *abi.TensorMap) { t.Box = [5]uint64{8, 9, 10, 11, 12} },
		abi.TensorIm2col: func(t *abi.TensorMap) {
			t.Lower, t.Upper, t.Channels, t.Pixels = [3]int64{-1, -2, -3}, [3]int64{4, 5, 6}, 16, 32
		},
		abi.TensorIm2colWide: func(t *abi.TensorMap) { t.Lower[0], t.Upper[0], t.Channels, t.Pixels, t.Mode = -7, 8, 48, 64, 1 },
	} {
		tensor := tensor
		tensor.Kind = uint64(kind)
		more(&tensor)
		want, err := model.EncodeTensor(&tensor)
		b.must(err)
		got, err := mapper.EncodeTensorMap(&tensor)
		b.must(err)
		if got != want {
			t.Errorf("a tensor of kind %d: it is\n%x, want\n%x", kind, got, want)
		}
		tensor.Address += 4096
		want, err = model.EncodeTensor(&tensor)
		b.must(err)
		if got, err = mapper.ReplaceAddress(got, tensor.Address); err != nil || got != want {
			t.Errorf("a tensor of kind %d elsewhere: %v: it is\n%x, want\n%x", kind, err, got, want)
		}
	}
}
