package code

import (
	"slices"
	"sync"

	"github.com/phos-gpu/phos/internal/ptx"
)

// Callees are the functions that a kernel may call by address. Each is lowered when it is first
// called: a library has hundreds of them, of which a launch calls few.
type Callees struct {
	kernel   *Kernel
	linked   *Linked
	complete func(*ptx.Func) error
	shared   sharedLayout
	lowered  sync.Map // address to *Callee, or to the error of lowering it
}

// Callee is a function that a kernel calls by address, with copies of all functions that it calls
// by name. Its part of the register block is behind the kernel's own. All callees share that place,
// so a callee that calls another by address has its registers saved.
type Callee struct {
	*Function
	Block
	// Functions are those whose registers are to be saved.
	Functions []*Function
}

// At returns the function at an address. It returns nil if there is none.
func (c *Callees) At(address uint64) (*Callee, error) {
	if callee, err, known := c.find(address); known {
		return callee, err
	}
	c.linked.Lock.Lock()
	defer c.linked.Lock.Unlock()
	return c.add(address)
}

// find returns what At has found before.
func (c *Callees) find(address uint64) (callee *Callee, err error, known bool) {
	switch found, _ := c.lowered.Load(address); found := found.(type) {
	case *Callee:
		return found, nil, true
	case error:
		return nil, found, true
	}
	return nil, nil, false
}

// add lowers the function at an address. The caller holds the lock of linked.
func (c *Callees) add(address uint64) (*Callee, error) {
	if callee, err, known := c.find(address); known {
		return callee, err
	}
	f := c.linked.AtAddress[address]
	if f == nil || f.Entry { // a kernel cannot be called: it reads the parameters of its own launch
		return nil, nil
	}
	callee, err := c.lower(f)
	if err == nil && (f.ParamRegs != nil || f.ReturnRegs != nil) {
		err = &Refused{
			Function: f.Name, Pos: f.Pos,
			Text: "a function with parameters in registers cannot be called by its address",
		}
	}
	if err != nil {
		c.lowered.Store(address, err)
		return nil, err
	}
	c.lowered.Store(address, callee)
	return callee, nil
}

// lower lowers a function behind what the kernel has.
func (c *Callees) lower(f *ptx.Func) (*Callee, error) {
	l := newLowering(c.linked, c.complete, c.kernel)
	l.callee = &Callee{}
	l.text = *c.kernel.Text()
	l.narrow, l.wide, l.predicates = c.kernel.RegisterBytes, c.kernel.RegisterBytes+column32, c.kernel.Predicates
	l.shared = c.shared
	main, err := l.reach(f)
	if err != nil {
		return nil, err
	}
	l.layoutFrames()
	l.layoutRegisters()
	if err := l.lowerAll(main); err != nil {
		return nil, err
	}
	if len(l.text.Insts) > maxText {
		return nil, &Refused{Function: f.Name, Pos: f.Pos, Text: "the kernel calls too many large functions"}
	}
	l.callee.Function, l.callee.Block = main.out, l.block
	for _, fn := range l.order {
		l.callee.Functions = append(l.callee.Functions, fn.out)
	}
	c.kernel.text.Store(&l.text)
	return l.callee, nil
}

// maxText is how many instructions a kernel and its callees may have.
const maxText = 1 << 23

// addCallees gives the kernel its callees.
func (l *lowering) addCallees() error {
	l.kernel.Callees = &Callees{kernel: l.kernel, linked: l.linked, complete: l.complete, shared: l.shared}
	if !l.linked.checked {
		l.linked.checked = true
		if err := l.checkCallees(); err != nil {
			return err
		}
	}
	l.kernel.Registers = max(l.kernel.Registers, l.linked.registers)
	return nil
}

// checkCallees lowers the functions whose bodies are read, and forgets that, so that errors in them
// are found when the program is loaded.
func (l *lowering) checkCallees() error {
	c := newLowering(l.linked, l.complete, &Kernel{Frame: l.kernel.Frame, StaticShared: l.kernel.StaticShared})
	c.shared = l.shared
	for _, f := range l.candidates() {
		if l.linked.Modules[f].Outlined() {
			continue
		}
		if _, err := c.reach(f); err != nil {
			return err
		}
	}
	if len(c.order) == 0 {
		return nil
	}
	c.layoutFrames()
	c.layoutRegisters()
	err := c.lowerAll(c.order[0])
	l.linked.registers = c.kernel.Registers
	return err
}

// candidates returns the functions whose address may be called, in the order of their addresses.
func (l *lowering) candidates() []*ptx.Func {
	addresses := l.linked.FunctionAddresses
	found := make([]*ptx.Func, 0, len(addresses))
	for f := range addresses {
		if !f.Entry {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b *ptx.Func) int { return int(int64(addresses[a]) - int64(addresses[b])) })
	return found
}
