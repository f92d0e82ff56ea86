package codeinfo

import (
	"bytes"
	"debug/elf"
	"regexp"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
)

var (
	variable = regexp.MustCompile(
		`(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.(?:global|const)[ \t]+[^;={\[]*?([\w$%]+)[ \t]*(?:\[[^\]]*\][ \t]*)*(?:=|;)`,
	)
	entry   = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak)[ \t]+)?\.entry[ \t]+([\w$%]+)`)
	managed = regexp.MustCompile(
		`(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.global[ \t]+[^;={]*\.attribute\([ \t]*\.managed[ \t]*\)[^;={\[]*?([\w$%]+)[ \t]*(?:\[|=|;)`,
	)
)

// Processor-specific bits of a symbol's st_other field.
const (
	symbolManaged    = 0x04
	symbolKernel     = 0x10
	symbolVisibility = 0x03
)

// symbolVariable is the type of variables in relocatable code.
const symbolVariable elf.SymType = 13

// sharedSection is the name prefix of sections with shared memory.
const sharedSection = ".nv.shared"

// Variables returns the names of the variables that code declares.
func Variables(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return variables(i.Cubin, 0)
	}
	return declaredNames(variable, i.PTX)
}

// Kernels returns the names of the kernels in code.
func Kernels(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return symbols(i.Cubin, func(_ *elf.File, s elf.Symbol) bool { return isKernel(s) })
	}
	return declaredNames(entry, i.PTX)
}

// Managed returns the name of a managed variable in the code, or an empty string.
func Managed(i gpu.Image) string {
	names := declaredNames(managed, i.PTX)
	if len(i.Cubin) > 0 {
		names = variables(i.Cubin, symbolManaged)
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}

// declaredNames returns the names that a pattern finds in texts.
func declaredNames(form *regexp.Regexp, texts []string) []string {
	var names []string
	for _, text := range texts {
		for _, found := range form.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// variables returns the variables of machine code that have all bits of mark.
func variables(cubin []byte, mark byte) []string {
	return symbols(cubin, func(file *elf.File, s elf.Symbol) bool { return s.Other&mark == mark && isVariable(file, s) })
}

// isKernel reports whether a symbol is a kernel.
func isKernel(s elf.Symbol) bool {
	return s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Other&symbolKernel != 0
}

// isVariable reports whether a symbol is a variable in device memory.
func isVariable(file *elf.File, s elf.Symbol) bool {
	if kind := elf.ST_TYPE(s.Info); kind != elf.STT_OBJECT && kind != symbolVariable || s.Other&symbolVisibility != 0 {
		return false
	}
	return s.Size > 0 && s.Section != elf.SHN_UNDEF && int(s.Section) < len(file.Sections) &&
		!strings.HasPrefix(file.Sections[s.Section].Name, sharedSection)
}

// symbols returns the names of wanted symbols of machine code. Most variables, and C++ static
// kernels, are local symbols; only relocatable code has others.
func symbols(cubin []byte, wanted func(*elf.File, elf.Symbol) bool) []string {
	file, err := fatbin.OpenCubin(cubin)
	if err != nil {
		return nil // the driver accepts more formats
	}
	all, err := file.Symbols()
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && wanted(file, s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// allocator is the declaration of malloc in PTX; deviceMalloc is its name in machine code, which
// the driver links.
var allocator = regexp.MustCompile(`\.extern\s+\.func\s*\([^)]*\)\s*malloc\b`)

const deviceMalloc = "malloc"

// Allocates reports whether kernels of the code call malloc.
func Allocates(i gpu.Image) bool {
	if len(i.Cubin) == 0 {
		return slices.ContainsFunc(i.PTX, allocator.MatchString)
	}
	if !bytes.Contains(i.Cubin, []byte("\x00"+deviceMalloc+"\x00")) {
		return false
	}
	file, err := fatbin.OpenCubin(i.Cubin)
	if err != nil {
		return false
	}
	all, err := file.Symbols()
	return err == nil && slices.ContainsFunc(all, func(s elf.Symbol) bool {
		return s.Name == deviceMalloc && s.Section == elf.SHN_UNDEF
	})
}

// Mentions reports whether the code contains a name.
func Mentions(i gpu.Image, name string) bool {
	for _, text := range i.PTX {
		if strings.Contains(text, name) {
			return true
		}
	}
	return bytes.Contains(i.Cubin, []byte(name))
}
