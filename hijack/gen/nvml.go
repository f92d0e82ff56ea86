package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// nvml is what is exported under the name of NVIDIA's management library.
type nvml struct {
	// names are all that a real one exports, sorted; built are those that hijack/nvml declares.
	names, built []string
}

// errNVML means that the list of names and the declarations do not fit each other.
var errNVML = errors.New("hijack/nvml/calls.h")

var nvmlName = regexp.MustCompile(`\b(nvml[A-Z]\w*)\(`)

func loadNVML(root string) (found nvml, err error) {
	list, err := os.ReadFile(filepath.Join(root, "hijack/spec/nvml.names"))
	if err != nil {
		return nvml{}, err
	}
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			found.names = append(found.names, line)
		}
	}
	slices.Sort(found.names)
	header, err := os.ReadFile(filepath.Join(root, "hijack/nvml/calls.h"))
	if err != nil {
		return nvml{}, err
	}
	for _, match := range nvmlName.FindAllStringSubmatch(string(header), -1) {
		if !slices.Contains(found.names, match[1]) {
			return nvml{}, fmt.Errorf("%w: %s is not in hijack/spec/nvml.names", errNVML, match[1])
		}
		found.built = append(found.built, match[1])
	}
	return found, nil
}

// nvmlRefuse writes the functions that are not built. They ignore their arguments.
func nvmlRefuse(s *spec) ([]byte, error) {
	var b strings.Builder
	b.WriteString(
		cBanner + "/* Calls of NVML that are not built. */\n#include \"nvml.h\"\n\n#define REFUSE(name) \\\n\t__attribute__((visibility(\"default\"))) nvmlReturn_t name(void); \\\n\tnvmlReturn_t name(void) \\\n\t{ \\\n\t\treturn phos_nvml_refuse(#name); \\\n\t}\n\n",
	)
	for _, name := range s.nvml.names {
		if !slices.Contains(s.nvml.built, name) {
			fmt.Fprintf(&b, "REFUSE(%s)\n", name)
		}
	}
	return []byte(b.String()), nil
}
