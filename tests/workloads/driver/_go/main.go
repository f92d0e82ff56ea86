// Command go runs a kernel through the driver API from a Go program, which finds the driver by
// dlopen through cgo, as Go bindings do. The folder's name keeps it out of ./..., because phos
// itself builds without cgo.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*fn0)(unsigned long, unsigned long, unsigned long, unsigned long);

static int call(void *f, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	return ((fn0)f)(a, b, c, d);
}

typedef int (*fnlaunch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static int launch(void *f, unsigned long function, unsigned grid, unsigned block, unsigned long pointer, unsigned n)
{
	void *parameters[] = {&pointer, &n};
	return ((fnlaunch)f)((void *)function, grid, 1, 1, block, 1, 1, 0, 0, parameters, 0);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry cube(.param .u64 p, .param .u32 n)
{
 .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<4>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
 mad.lo.s32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [n]; setp.ge.u32 %p, %r1, %r4; @%p bra DONE;
 ld.param.u64 %d1, [p]; cvta.to.global.u64 %d1, %d1;
 mul.lo.s32 %r5, %r1, %r1; mul.lo.s32 %r5, %r5, %r1;
 mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r5;
DONE: ret;
}
` + "\x00"

var library unsafe.Pointer

func symbol(name string) unsafe.Pointer {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	found := C.dlsym(library, text)
	if found == nil {
		fail("no symbol %s", name)
	}
	return found
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// cu calls a driver function with integers and pointers to C memory.
func cu(name string, args ...uintptr) {
	var a [4]C.ulong
	for i, arg := range args {
		a[i] = C.ulong(arg)
	}
	if code := C.call(symbol(name), a[0], a[1], a[2], a[3]); code != 0 {
		fail("%s: error %d", name, code)
	}
}

// box is 64 bits of C memory for the driver to write into.
func box() (uintptr, *uint64) {
	memory := (*uint64)(C.calloc(1, 8))
	return uintptr(unsafe.Pointer(memory)), memory
}

func cubes(context uint64, n int) error {
	// A context belongs to a thread; a goroutine must stay on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cu("cuCtxSetCurrent", uintptr(context))
	text := C.CString(ptx)
	name := C.CString("cube")
	moduleAt, module := box()
	functionAt, function := box()
	memoryAt, memory := box()
	cu("cuModuleLoadData", moduleAt, uintptr(unsafe.Pointer(text)))
	cu("cuModuleGetFunction", functionAt, uintptr(*module), uintptr(unsafe.Pointer(name)))
	cu("cuMemAlloc_v2", memoryAt, uintptr(4*n))
	if code := C.launch(symbol("cuLaunchKernel"), C.ulong(*function), C.uint((n+63)/64), 64, C.ulong(*memory),
		C.uint(n)); code != 0 {
		return fmt.Errorf("cuLaunchKernel: error %d", code)
	}
	got := C.calloc(C.size_t(n), 4)
	cu("cuMemcpyDtoH_v2", uintptr(got), uintptr(*memory), uintptr(4*n))
	for i, x := range unsafe.Slice((*int32)(got), n) {
		if want := int32(i * i * i); x != want {
			return fmt.Errorf("element %d is %d, not %d", i, x, want)
		}
	}
	cu("cuMemFree_v2", uintptr(*memory))
	return nil
}

func main() {
	name := C.CString("libcuda.so.1")
	if library = C.dlopen(name, C.RTLD_NOW); library == nil {
		fail("dlopen: %s", C.GoString(C.dlerror()))
	}
	cu("cuInit", 0)
	contextAt, context := box()
	cu("cuCtxCreate_v2", contextAt, 0, 0)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			if err := cubes(*context, 500+i); err != nil {
				fail("%v", err)
			}
		})
	}
	wait.Wait()
	cu("cuCtxDestroy_v2", uintptr(*context))
	fmt.Println("ok go")
}
