package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Library is code without a context.
type Library struct {
	// Image is its index in Session.Images.
	Image int
}

func (l *Library) code(c *coder) { number(c, &l.Image) }

// Kernel is a function of a library.
type Kernel struct{ Name string }

func (k *Kernel) code(c *coder) { c.text(&k.Name) }

// Module is code in a context.
type Module struct {
	// Library is the library that contains the code; 0 for a separate module with code Image.
	Library abi.Handle
	Image   int
	// HeapBytes is the heap size of its kernels; 0 for the default.
	HeapBytes uint64
	// Variables are the variables with memory, in the order of the linker's requests.
	Variables []Variable
	// Placed are the variables whose addresses the backend chose.
	Placed []Placed
}

// Variable is a variable of a module; Range is its allocation.
type Variable struct {
	Name  string
	Range gpu.Range
	// Managed variables lie in the arena.
	Managed bool
}

// Placed is a variable at an address that the backend chose, with its content.
type Placed struct {
	Name    string
	Address uint64
	Content []byte
}

// code codes a module; Placed since version 5.
func (m *Module) code(c *coder) {
	number(c, &m.Library)
	number(c, &m.Image)
	number(c, &m.HeapBytes)
	list(c, &m.Variables, func(c *coder, v *Variable) {
		c.text(&v.Name)
		codeRange(c, &v.Range)
		c.boolean(&v.Managed)
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
	// Attributes are the attributes that can be set.
	Attributes []Attribute
}

// Attribute is an attribute of a function.
type Attribute struct {
	Number abi.FunctionAttribute
	Value  int32
}

// code codes a function: its name, and the attributes that can be set.
func (f *Function) code(c *coder) {
	c.text(&f.Name)
	list(c, &f.Attributes, func(c *coder, a *Attribute) {
		number(c, &a.Number)
		number(c, &a.Value)
	})
}
