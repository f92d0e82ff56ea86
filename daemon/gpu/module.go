package gpu

// Image is code to load: PTX, Cubin, or both, which are the same program then. The session has
// already unpacked fat binaries.
type Image struct {
	// PTX is one or more PTX texts that make up one program (more than one after linking). Beside
	// Cubin it may be for later architectures: for a device that executes PTX only.
	PTX []string
	// Cubin is machine code for real devices, the one that a driver takes.
	Cubin []byte
	// Whole is the fat binary that both were unpacked from, for a driver, which chooses itself; nil
	// where there was none.
	Whole []byte
	// Holds lists, for messages, all code that there was to choose from.
	Holds string
}

// LoadOptions accompany an image.
type LoadOptions struct {
	// Place finds device memory for a module global and returns its address, backed and zeroed. Nil
	// where the driver places globals.
	Place func(name string, bytes, align uint64) (address uint64, err error)
	// PlaceManaged does the same for a managed variable, in memory that the program has too. Nil
	// refuses code that has any.
	PlaceManaged func(name string, bytes uint64) (address uint64, err error)
	// Filled says that the variables have their content, or will have it when it is touched, and are
	// not to be initialised.
	Filled bool
	// HeapBytes is the memory that malloc in the image's kernels takes from; 0 for the default. Code
	// that is loaded again must get what it had.
	HeapBytes uint64
}

// Placer is a Context whose driver finds the places of variables itself. It puts them where they
// were if, in a fresh context, the same code comes and goes in the same order before anything else
// happens; more can nobody do, and no driver promises even that.
type Placer interface{ PlacesVariables() }

// LoadError says why an image was refused, with the text for the program's JIT error log.
type LoadError struct {
	// Log is what the driver's JIT log would hold: "line 12, column 7: unknown instruction 'foo.b32'".
	Log string
	// Err holds the abi.Result (abi.InvalidPTX, abi.NoBinaryForGPU, ...), for errors.As and errors.Is.
	Err error
}

func (e *LoadError) Error() string { return e.Log }

func (e *LoadError) Unwrap() error { return e.Err }

// Module is loaded code.
type Module interface {
	// Functions lists the kernels by name, sorted.
	Functions() []string
	// Function finds a kernel; abi.NotFound where there is none.
	Function(name string) (Function, error)
	// Globals lists the module's variables by name.
	Globals() map[string]Range
	Close() error
}

// Function is a kernel.
type Function interface {
	Info() FunctionInfo
	// SetAttribute changes one of the changeable attributes (dynamic shared memory limit, carve-out,
	// ...).
	SetAttribute(attribute, value int32) error
	// ActiveBlocks is the number of blocks of this shape that fit one multiprocessor.
	ActiveBlocks(threadsPerBlock int, dynamicSharedBytes uint64) (int, error)
}

// FunctionInfo is what programs ask about a kernel. Attributes are numbered as in the driver's
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
