package gpu

// Image is code to load: PTX, machine code, or both for the same program. The session has already
// unpacked fat binaries.
type Image struct {
	// PTX is one or more PTX texts that make up one program (more than one after linking). Beside
	// Cubin, it may target later architectures, for devices that execute only PTX.
	PTX []string
	// Cubin is the machine code that the driver would choose for the device.
	Cubin []byte
	// Whole is the fat binary that PTX and Cubin were unpacked from, because the driver chooses
	// itself; nil if there was none.
	Whole []byte
	// Holds lists all code in the image, for error messages.
	Holds string
}

// LoadOptions accompany an image.
type LoadOptions struct {
	// Place allocates device memory for a module's variable and returns its address, backed and
	// zeroed. It is nil if the driver places variables.
	Place func(name string, bytes, align uint64) (address uint64, err error)
	// PlaceManaged does the same for a managed variable, in memory shared with the program. If it
	// is nil, code with managed variables is refused.
	PlaceManaged func(name string, bytes uint64) (address uint64, err error)
	// Filled is set if the variables already have their content, or will be filled on first access.
	// The backend must not initialize them.
	Filled bool
	// HeapBytes is the size of the heap for malloc in kernels; 0 for the default. Code that is
	// loaded again after a restore must get the same heap.
	HeapBytes uint64
}

// Placer is a Context whose driver places module variables itself. After a restore it usually
// places them at the same addresses if the same code is loaded and unloaded in the same order in a
// new context. No driver guarantees that.
type Placer interface{ PlacesVariables() }

// LoadError is returned when an image is refused. It carries the text for the program's JIT error
// log.
type LoadError struct {
	// Log is the JIT log: "line 12, column 7: unknown instruction 'foo.b32'".
	Log string
	// Err holds the abi.Result (abi.InvalidPTX, abi.NoBinaryForGPU, ...), for errors.As and
	// errors.Is.
	Err error
}

func (e *LoadError) Error() string { return e.Log }

func (e *LoadError) Unwrap() error { return e.Err }

// Module is loaded code.
type Module interface {
	// Functions lists the kernels by name, sorted.
	Functions() []string
	// Function finds a kernel by name; the error is abi.NotFound if there is none.
	Function(name string) (Function, error)
	// Globals lists the module's variables by name.
	Globals() map[string]Range
	Close() error
}

// Function is a kernel.
type Function interface {
	Info() FunctionInfo
	// SetAttribute sets a writable attribute (dynamic shared memory limit, carve-out, ...).
	SetAttribute(attribute, value int32) error
	// ActiveBlocks returns how many blocks of this shape fit on one multiprocessor.
	ActiveBlocks(threadsPerBlock int, dynamicSharedBytes uint64) (int, error)
}

// FunctionInfo is what a program may query about a kernel. Attributes are numbered by
// CUfunction_attribute.
type FunctionInfo struct {
	Name       string
	Params     []Param
	ParamBytes uint32
	Attributes [16]int32
}

// Param is one kernel parameter's place in the parameter block.
type Param struct {
	Offset, Bytes uint32
}
