package codeinfo

import (
	"bytes"
	"debug/elf"
	"regexp"
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

// What the compilers say of a symbol in the bits of its visibility that are free for processors.
const (
	symbolManaged    = 0x04
	symbolKernel     = 0x10
	symbolVisibility = 0x03
)

// symbolVariable is the type of variables in code that is not linked yet.
const symbolVariable elf.SymType = 13

// sharedSection begins the names of sections with what each block has of its own.
const sharedSection = ".nv.shared"

// Variables lists the variables that code declares.
func Variables(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return variables(i.Cubin, 0)
	}
	return declared(variable, i.PTX)
}

// Kernels lists the kernels in code.
func Kernels(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return symbols(i.Cubin, func(_ *elf.File, s elf.Symbol) bool {
			return elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Other&symbolKernel != 0
		})
	}
	return declared(entry, i.PTX)
}

// Managed is the name of a managed variable in the code, empty where there is none.
func Managed(i gpu.Image) string {
	names := declared(managed, i.PTX)
	if len(i.Cubin) > 0 {
		names = variables(i.Cubin, symbolManaged)
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}

func declared(form *regexp.Regexp, texts []string) []string {
	var names []string
	for _, text := range texts {
		for _, found := range form.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// variables lists those of machine code that have a mark.
func variables(cubin []byte, mark byte) []string {
	return symbols(cubin, func(file *elf.File, s elf.Symbol) bool {
		if kind := elf.ST_TYPE(s.Info); kind != elf.STT_OBJECT && kind != symbolVariable || s.Other&mark != mark ||
			s.Other&symbolVisibility != 0 {
			return false
		}
		return s.Size > 0 && int(s.Section) < len(file.Sections) &&
			!strings.HasPrefix(file.Sections[s.Section].Name, sharedSection)
	})
}

// symbols lists symbols of machine code. Most variables, and the kernels that C++ calls static, are
// local symbols: only code that was compiled to be linked has others.
func symbols(cubin []byte, wanted func(*elf.File, elf.Symbol) bool) []string {
	file, err := fatbin.OpenCubin(cubin)
	if err != nil {
		return nil // the driver takes forms that this does not know
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

// Mentions reports whether a name is in the code.
func Mentions(i gpu.Image, name string) bool {
	for _, text := range i.PTX {
		if strings.Contains(text, name) {
			return true
		}
	}
	return bytes.Contains(i.Cubin, []byte(name))
}
