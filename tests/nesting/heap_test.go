package nesting

import (
	"fmt"
	"os"
	"reflect"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// init starts this binary again where Go has put its heap into the windows of the driver behind: it does so at random, once in
// four times, and libphos.so takes what lies there for device memory.
func init() {
	const windows = 24
	heap := uint64(reflect.ValueOf(new([64]byte)).Pointer())
	if heap < gpu.DefaultWindow(0).Address || heap >= gpu.DefaultWindow(windows).Address {
		return
	}
	err := unix.Exec("/proc/self/exe", os.Args, os.Environ())
	fmt.Fprintln(os.Stderr, "start again with another heap:", err)
	os.Exit(1)
}
