package codeinfo

import (
	"bytes"
	"debug/elf"
	"regexp"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
)

var (
	variable = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.(?:global|const)[ \t]+[^;={\[]*?([\w$%]+)[ \t]*(?:\[[^\]]*\][ \t]*)*(?:=|;)`)
	entry    = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak)[ \t]+)?\.entry[ \t]+([\w$%]+)`)
	managed  = regexp.MustCompile(`(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.global[ \t]+[^;={]*\.attribute\([ \t]*\.managed[ \t]*\)[^;={\[]*?([\w$%]+)[ \t]*(?:\[|=|;)`)
)

// Variables lists the variables that code declares.
func Variables(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return symbols(i.Cubin, elf.STT_OBJECT)
	}
	return declared(variable, i.PTX)
}

// Kernels lists the kernels in code.
func Kernels(i gpu.Image) []string {
	if len(i.Cubin) > 0 {
		return symbols(i.Cubin, elf.STT_FUNC)
	}
	return declared(entry, i.PTX)
}

// Managed is the name of a managed variable in the code, empty where there is none.
func Managed(i gpu.Image) string {
	if names := declared(managed, i.PTX); len(names) > 0 && len(i.Cubin) == 0 {
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

// symbols lists the global symbols of machine code of one kind.
func symbols(cubin []byte, kind elf.SymType) []string {
	file, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		return nil // the driver takes forms that this does not know
	}
	all, err := file.Symbols()
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all {
		if elf.ST_TYPE(s.Info) == kind && elf.ST_BIND(s.Info) != elf.STB_LOCAL && s.Section != elf.SHN_UNDEF {
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
