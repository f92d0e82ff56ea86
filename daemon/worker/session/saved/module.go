package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Library is code that belongs to no context.
type Library struct {
	// Image is its place among the images.
	Image int
}

func (l *Library) code(c *coder) { number(c, &l.Image) }

// Kernel is a function of a library.
type Kernel struct{ Name string }

func (k *Kernel) code(c *coder) { c.text(&k.Name) }

// Module is code in a context.
type Module struct {
	// Library is the library whose code it is; 0 for a module of its own, whose code is Image.
	Library abi.Handle
	Image   int
	// HeapBytes is the heap of its kernels, 0 for the default.
	HeapBytes uint64
	// Variables have memory, in the order in which the linker asked for it.
	Variables []Variable
	// Placed are the variables that lie where the backend has put them.
	Placed []Placed
}

// Variable is memory of a module: the range is that of the allocation.
type Variable struct {
	Name  string
	Range gpu.Range
	// Managed ones lie in the arena.
	Managed bool
}

// Placed is a variable that the backend found a place for, with its content.
type Placed struct {
	Name    string
	Address uint64
	Content []byte
}

func (m *Module) code(c *coder) {
	number(c, &m.Library)
	number(c, &m.Image)
	number(c, &m.HeapBytes)
	list(c, &m.Variables, func(c *coder, v *Variable) {
		c.text(&v.Name)
		codeRange(c, &v.Range)
		c.flag(&v.Managed)
	})
	if c.version >= 5 {
		list(c, &m.Placed, func(c *coder, v *Placed) {
			c.text(&v.Name)
			number(c, &v.Address)
			c.bytes(&v.Content)
		})
	}
}

// Function is a kernel of a module.
type Function struct {
	Name string
	// Attributes are those that can be set.
	Attributes []Attribute
}

// Attribute is one of a function.
type Attribute struct {
	Number abi.FunctionAttribute
	Value  int32
}

func (f *Function) code(c *coder) {
	c.text(&f.Name)
	list(c, &f.Attributes, func(c *coder, a *Attribute) {
		number(c, &a.Number)
		number(c, &a.Value)
	})
}
