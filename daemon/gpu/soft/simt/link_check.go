package simt

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Modules are compiled separately, so what one declares need not be what another defines. Callers
// and their callees are lowered by one signature, and a variable has one place.

// checkFunctions returns an error for a function whose declarations differ from its definition.
func (l *linker) checkFunctions() error {
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			definition := l.linked.Functions[f.Name]
			if definition == nil || definition == f {
				continue
			}
			if difference := differs(f, definition); difference != "" {
				return fmt.Errorf("function '%s': %s: %w", f.Name, difference, abi.InvalidPTX)
			}
		}
	}
	return nil
}

// differs says how a declaration differs from a definition for callers; it is empty if it does not.
func differs(declared, defined *ptx.Func) string {
	same := func(v, w *ptx.Var) bool { return v.Bytes == w.Bytes }
	switch {
	case declared.Entry != defined.Entry:
		return "a declaration says .func and the definition .entry, or the other way round"
	case len(declared.Returns) != len(defined.Returns):
		return fmt.Sprintf("declared with %d return values, defined with %d", len(declared.Returns), len(defined.Returns))
	case len(declared.Params) != len(defined.Params):
		return fmt.Sprintf("declared with %d parameters, defined with %d", len(declared.Params), len(defined.Params))
	case !slices.EqualFunc(declared.Returns, defined.Returns, same):
		return "the sizes of its return values differ between declaration and definition"
	case !slices.EqualFunc(declared.Params, defined.Params, same):
		return "the sizes of its parameters differ between declaration and definition"
	}
	return ""
}

// chooseVariables chooses the definition of each visible variable: the only strong one, else the
// first weak one, else the largest common one.
func (l *linker) chooseVariables() error {
	strong := func(v *ptx.Var) bool { return v.Linkage == ptx.Visible }
	for _, m := range l.modules {
		for _, v := range m.Globals {
			if v.Space == ptx.Shared || v.Linkage == ptx.Extern || v.Linkage == ptx.Internal {
				continue
			}
			known := l.variables[v.Name]
			switch {
			case known == nil, strong(v) && !strong(known):
				l.variables[v.Name] = v
			case strong(v) && strong(known):
				return fmt.Errorf("variable '%s' is defined twice: %w", v.Name, abi.InvalidPTX)
			case v.Linkage == ptx.Common && known.Linkage == ptx.Common && v.Bytes > known.Bytes:
				l.variables[v.Name] = v
			}
		}
	}
	return nil
}

// checkVariable returns an error for a declaration, or a definition that was not chosen, that
// differs from the definition. Declared arrays may have no size, and common definitions different
// ones.
func checkVariable(declared, defined *ptx.Var) error {
	common := declared.Linkage == ptx.Common && defined.Linkage == ptx.Common
	switch {
	case declared.Space != defined.Space:
		return fmt.Errorf("variable '%s' is declared in one state space and defined in another: %w",
			declared.Name, abi.InvalidPTX)
	case declared.Managed != defined.Managed:
		return fmt.Errorf("variable '%s' is managed in one text and not in another: %w", declared.Name, abi.InvalidPTX)
	case declared.Bytes != 0 && declared.Bytes != defined.Bytes && !common:
		return fmt.Errorf("variable '%s' is declared with %d bytes and defined with %d: %w",
			declared.Name, declared.Bytes, defined.Bytes, abi.InvalidPTX)
	}
	return nil
}
