package code

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Loaded is code that the program has loaded: all modules and libraries that can run on the same
// GPUs.
type Loaded struct {
	// Name is the first's: "module 3".
	Name string
	// Targets are as package fatbin lists them.
	Targets []string
	// Kernels are some that the program has a handle of.
	Kernels []string
	Modules int
}

const (
	maxKernels = 4
	// maxCode is more than any program has; the rest is left out.
	maxCode = 256
	// imageBytes limits what is read of a program's memory as code, against lengths that are lies.
	imageBytes = 2 << 30
	readBytes  = 16 << 20
)

// List lists what the program has loaded, in the order in which it did.
func (s *Code) List() []Loaded {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var all []Loaded
	at := map[string]int{}
	for o := range s.Objects.Records() {
		one, is := codeOf(o)
		if !is || o.Retired() {
			continue
		}
		key := strings.Join(one.Targets, " ")
		i, ok := at[key]
		if !ok {
			if len(all) == maxCode {
				continue
			}
			i = len(all)
			at[key], all = i, append(all, Loaded{Name: one.Name, Targets: one.Targets})
		}
		all[i].Modules++
		all[i].Kernels = append(all[i].Kernels, one.Kernels[:min(len(one.Kernels), maxKernels-len(all[i].Kernels))]...)
	}
	return all
}

// codeOf is the code of one object. A library's is counted once, however many modules it is loaded
// as.
func codeOf(o *object.Object) (Loaded, bool) {
	name := fmt.Sprintf("%v %d", o.Kind, o.Handle().Index())
	switch state := o.State.(type) {
	case *Module:
		if state.library != nil {
			return Loaded{}, false
		}
		return Loaded{Name: name, Targets: state.targets, Kernels: slices.Sorted(maps.Keys(state.functions))}, true
	case *library:
		return Loaded{Name: name, Targets: state.images.Targets(), Kernels: slices.Sorted(maps.Keys(state.kernels))}, true
	}
	return Loaded{}, false
}

// readImage reads code from the program's memory.
func readImage(memory io.ReaderAt, address, bytes uint64) ([]byte, error) {
	if bytes == 0 || bytes > imageBytes {
		return nil, &gpu.Error{Op: "read image", Code: abi.InvalidImage, Detail: fmt.Sprintf("%d bytes", bytes)}
	}
	image := make([]byte, 0, min(bytes, readBytes))
	for uint64(len(image)) < bytes {
		// Piece by piece: a length that is a lie fails at the first page that is not there.
		n := len(image)
		image = append(image, make([]byte, min(bytes-uint64(n), readBytes))...)
		if _, err := memory.ReadAt(image[n:], int64(address)+int64(n)); err != nil {
			return nil, &gpu.Error{Op: "read image", Code: abi.InvalidValue, Detail: err.Error()}
		}
	}
	return image, nil
}
