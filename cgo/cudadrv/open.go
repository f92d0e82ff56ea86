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

// Built reports whether this program was built with cgo and can open a driver.
const Built = true

// Driver is the driver of this process. There is at most one, because a driver keeps its state in
// the process, not in a handle.
type Driver struct {
	// Path is the path or name given to Open.
	Path string
	// Version is the driver's version, as 1000 * major + 10 * minor.
	Version int32
}

// name is an entry point; optional ones may be missing.
type name struct {
	symbol   string
	optional bool
}

var (
	mu     sync.Mutex
	opened *Driver
)

// DefaultLibrary is opened if no path is given.
const DefaultLibrary = "libcuda.so.1"

// Open opens and initializes a driver. Later calls with the same path return the same Driver.
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

// load opens the library.
func load(path string) (library unsafe.Pointer, err error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	if why := C.phos_open(text, &library); why != nil {
		defer C.free(unsafe.Pointer(why))
		reason := C.GoString(why)
		// The loader names the library or, if the library exists, one that it needs.
		if strings.HasPrefix(reason, path+": cannot open shared object file: No such file") {
			return nil, fmt.Errorf("%w: %w: open %s: %s", ErrLibrary, ErrAbsent, path, reason)
		}
		return nil, fmt.Errorf("%w: open %s: %s", ErrLibrary, path, reason)
	}
	return library, nil
}

// find fills the tables of entry points. A driver without a required one is too old; the error
// names some missing ones.
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

// some returns a few missing symbols, the most telling ones first: an old driver lacks dozens.
func some(missing []string) string {
	const limit = 4
	slices.SortStableFunc(missing, func(a, b string) int { return telling(a) - telling(b) })
	text := strings.Join(missing[:min(len(missing), limit)], ", ")
	if more := len(missing) - limit; more > 0 {
		text += fmt.Sprintf(" and %d other calls", more)
	}
	return text
}

// telling returns the sort key of a symbol for some.
func telling(symbol string) int {
	if symbol == "cuMemAddressReserve" || symbol == "cuMemMap" {
		return 0
	}
	return 1
}

// result converts the return code of a driver call to an error.
func result(call string, code C.int32_t) error {
	if code == 0 {
		return nil
	}
	return refused(call, abi.Result(code))
}

// CtxCreate creates a context.
func (d *Driver) CtxCreate(flags uint32, device int32) (ctx Context, err error) {
	err = result("cuCtxCreate_v2", C.phos_context_create((*C.uint64_t)(&ctx), C.uint32_t(flags), C.int32_t(device)))
	return ctx, err
}

// End destroys a context, and drops what is known of the threads' current contexts.
func (d *Driver) End(ctx Context) error {
	defer C.phos_forget()
	return d.CtxDestroy(ctx)
}

// DeviceName returns a device's name.
func (d *Driver) DeviceName(device int32) (string, error) {
	var text [256]byte
	if err := d.DeviceGetName(unsafe.Pointer(&text), int32(len(text)), device); err != nil {
		return "", err
	}
	return C.GoString((*C.char)(unsafe.Pointer(&text))), nil
}

// DeviceUUID returns a device's UUID.
func (d *Driver) DeviceUUID(device int32) (uuid [16]byte, err error) {
	err = d.DeviceGetUuid(unsafe.Pointer(&uuid), device)
	return uuid, err
}

// Flush flushes C's buffer of standard output, where the driver writes device printf.
func Flush() { C.phos_flush() }
