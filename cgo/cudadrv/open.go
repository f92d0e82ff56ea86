//go:build cgo

package cudadrv

/*
#cgo LDFLAGS: -ldl
#include "table.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Built says whether this program can open a driver at all.
const Built = true

// Driver is the driver of this process. There is one at most: a driver keeps its state in the
// process, not in a handle.
type Driver struct {
	// Path is the library, as it was named.
	Path string
	// Version is the driver's, as 1000 * major + 10 * minor.
	Version int32
}

// name is an entry point, and whether a driver may lack it.
type name struct {
	symbol   string
	optional bool
}

var (
	mu     sync.Mutex
	opened *Driver
)

// DefaultLibrary is what the loader is asked for where no path is given.
const DefaultLibrary = "libcuda.so.1"

// Open opens a driver and initialises it. It can be called again, with the same path.
func Open(path string) (*Driver, error) {
	if path == "" {
		path = DefaultLibrary
	}
	mu.Lock()
	defer mu.Unlock()
	if opened != nil {
		if opened.Path != path {
			return nil, fmt.Errorf("%w: this process uses %s already, not %s", ErrLibrary, opened.Path, path)
		}
		return opened, nil
	}
	library, err := load(path)
	if err != nil {
		return nil, err
	}
	if err := find(library, path); err != nil {
		return nil, err
	}
	d := &Driver{Path: path}
	if err := d.Init(0); err != nil {
		return nil, fmt.Errorf("%w: %s: cuInit: %w", ErrLibrary, path, err)
	}
	if d.Version, err = d.DriverGetVersion(); err != nil {
		return nil, fmt.Errorf("%w: %s: cuDriverGetVersion: %w", ErrLibrary, path, err)
	}
	opened = d
	return d, nil
}

func load(path string) (library unsafe.Pointer, err error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if why := C.phos_open(text, &library); why != nil {
		defer C.free(unsafe.Pointer(why))
		return nil, fmt.Errorf("%w: open %s: %s", ErrLibrary, path, C.GoString(why))
	}
	return library, nil
}

// find fills the tables. A driver that lacks calls is too old; the error names what it lacks.
func find(library unsafe.Pointer, path string) error {
	var missing []string
	look := func(symbol string, optional bool) unsafe.Pointer {
		text := C.CString(symbol)
		defer C.free(unsafe.Pointer(text))
		at := C.phos_find(library, text)
		if at == nil && !optional {
			missing = append(missing, symbol)
		}
		return at
	}
	for i, n := range names {
		C.phos_driver[i] = look(n.symbol, n.optional)
	}
	for i := range C.int(C.PHOS_SPECIAL_CALLS) {
		C.phos_special[i] = look(C.GoString(C.phos_special_name(i)), i == C.PHOS_ENUMERATE || i == C.PHOS_TENSOR_WIDE)
	}
	if len(missing) > 0 {
		return fmt.Errorf(
			"%w: %s is too old: it lacks %s; phos needs a driver of CUDA 12.0 (525) or newer",
			ErrLibrary,
			path,
			some(missing),
		)
	}
	return nil
}

// some names a few of what is missing, first what tells most of a driver's age: an old one lacks
// dozens.
func some(missing []string) string {
	const most = 4
	slices.SortStableFunc(missing, func(a, b string) int { return telling(a) - telling(b) })
	text := strings.Join(missing[:min(len(missing), most)], ", ")
	if more := len(missing) - most; more > 0 {
		text += fmt.Sprintf(" and %d other calls", more)
	}
	return text
}

func telling(symbol string) int {
	if symbol == "cuMemAddressReserve" || symbol == "cuMemMap" {
		return 0
	}
	return 1
}

// result makes an error of what a call of the driver returned.
func result(call string, code C.int32_t) error {
	if code == 0 {
		return nil
	}
	return refused(call, abi.Result(code))
}

// CtxCreate makes a context.
func (d *Driver) CtxCreate(flags uint32, device int32) (ctx Context, err error) {
	err = result("cuCtxCreate_v2", C.phos_context_create((*C.uint64_t)(&ctx), C.uint32_t(flags), C.int32_t(device)))
	return ctx, err
}

// End destroys a context. What was known of threads' contexts is forgotten.
func (d *Driver) End(ctx Context) error {
	defer C.phos_forget()
	return d.CtxDestroy(ctx)
}

// DeviceName is a device's name.
func (d *Driver) DeviceName(device int32) (string, error) {
	var text [256]byte
	if err := d.DeviceGetName(unsafe.Pointer(&text), int32(len(text)), device); err != nil {
		return "", err
	}
	return C.GoString((*C.char)(unsafe.Pointer(&text))), nil
}

// DeviceUUID is what tells a device from all others.
func (d *Driver) DeviceUUID(device int32) (uuid [16]byte, err error) {
	err = d.DeviceGetUuid(unsafe.Pointer(&uuid), device)
	return uuid, err
}

// Flush writes out what the driver has left in C's buffers of standard output.
func Flush() { C.phos_flush() }
