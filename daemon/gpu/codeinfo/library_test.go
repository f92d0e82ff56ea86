package codeinfo

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
)

// librariesVariable lists libraries with GPU code (libcublas.so.12, libnccl.so.2, ...), separated
// by colons. They are too large for every run.
const librariesVariable = "PHOS_TEST_LIBRARIES"

// Fat binaries begin at multiples of fatbinAlign in the sections with data, mostly in
// fatbinSection.
const (
	fatbinSection     = ".nv_fatbin"
	fatbinMagic       = 0xba55ed50
	fatbinHeaderBytes = 16
	fatbinAlign       = 8
)

// TestLibraries reads the parameters of all kernels of real libraries.
func TestLibraries(t *testing.T) {
	if os.Getenv(librariesVariable) == "" {
		t.Skip(librariesVariable + " names none")
	}
	for path := range strings.SplitSeq(os.Getenv(librariesVariable), ":") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			file, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			seen := counts{targets: map[string]int{}}
			for _, section := range file.Sections {
				if section.Type != elf.SHT_PROGBITS || section.Flags&elf.SHF_EXECINSTR != 0 {
					continue
				}
				data, err := section.Data()
				if err != nil {
					t.Fatal(err)
				}
				seen.all(t, data, section.Name == fatbinSection)
			}
			t.Logf(
				"%d fat binaries, %d cubins, %d kernels, %d parameters, %d variables; targets %v",
				seen.binaries,
				seen.cubins,
				seen.kernels,
				seen.params,
				seen.variables,
				seen.targets,
			)
			if seen.kernels == 0 {
				t.Error("no kernels")
			}
		})
	}
}

type counts struct {
	binaries, cubins, kernels, params, variables int
	targets                                      map[string]int
}

// all iterates over fat binaries. Other bytes, mostly zeros, may be in between.
func (c *counts) all(t *testing.T, data []byte, only bool) {
	for len(data) >= fatbinHeaderBytes {
		if binary.LittleEndian.Uint32(data) != fatbinMagic {
			data = data[fatbinAlign:]
			continue
		}
		images, err := fatbin.Parse(data)
		if err != nil && !only {
			data = data[fatbinAlign:]
			continue
		}
		if err != nil {
			t.Fatalf("fat binary %d: %v", c.binaries, err)
		}
		c.binaries++
		for _, target := range images.Targets() {
			c.targets[target]++
		}
		for _, cubin := range images.Cubins {
			code, err := cubin.Code()
			if err != nil {
				t.Error(err)
				continue
			}
			c.one(t, code)
		}
		data = data[min((len(images.Whole)+fatbinAlign-1)&^(fatbinAlign-1), len(data)):]
	}
}

func (c *counts) one(t *testing.T, cubin []byte) {
	c.cubins++
	code := gpu.Image{Cubin: cubin}
	file, err := fatbin.OpenCubin(cubin)
	if err != nil {
		t.Fatalf("cubin %d: %v", c.cubins, err)
	}
	texts := 0
	for _, s := range file.Sections {
		if strings.HasPrefix(s.Name, ".nv.info.") {
			texts++
		}
	}
	kernels := Kernels(code)
	for _, name := range kernels {
		params, err := Params(code, name)
		if err != nil {
			t.Errorf("cubin %d, sm_%d: %s: %v", c.cubins, fatbin.CubinSM(cubin), name, err)
		}
		c.params += len(params)
	}
	if len(kernels) > texts {
		t.Errorf("cubin %d: %d kernels and %d descriptions", c.cubins, len(kernels), texts)
	}
	c.kernels += len(kernels)
	c.variables += len(Variables(code))
}
