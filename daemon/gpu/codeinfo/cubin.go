package codeinfo

import (
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
)

// Cubin is what machine code declares.
type Cubin struct {
	Kernels   []Kernel
	Variables []Variable
}

// Kernel is a kernel in machine code.
type Kernel struct {
	Name   string
	Params []gpu.Param
	// SharedBytes is its static shared memory.
	SharedBytes uint64
	// Registers is the number of registers of a thread.
	Registers int32
	// MaxThreads limits the shape of its blocks, RequiredThreads is the only shape; zero if there is
	// no such limit.
	MaxThreads, RequiredThreads [3]uint32
}

// Variable is a variable in machine code.
type Variable struct {
	Name  string
	Bytes uint64
	// Constant is set for constant memory, Managed for memory that the program shares, Local for
	// names that other code may use too.
	Constant, Managed, Local bool
	// Content is the initial content, without addresses of other symbols; nil for zeros.
	Content []byte
}

// Names of sections of machine code, with a kernel's name behind them or not.
const (
	infoSection     = ".nv.info"
	constantSection = ".nv.constant"
)

// From this architecture on, the shared memory of a kernel begins with what the hardware reserves.
const (
	firstReserved = 90
	reservedBytes = 1 << 10
)

// ReadCubin reads the declarations of machine code in one pass.
func ReadCubin(code []byte) (*Cubin, error) {
	file, err := fatbin.OpenCubin(code)
	if err != nil {
		return nil, err
	}
	all, err := file.Symbols()
	if err != nil {
		return nil, err
	}
	sections := map[string]*elf.Section{}
	for _, section := range file.Sections {
		sections[section.Name] = section
	}
	registers, err := registerCounts(sections[infoSection])
	if err != nil {
		return nil, err
	}
	cubin := &Cubin{}
	for i, s := range all {
		switch {
		case isKernel(s):
			kernel := Kernel{Name: s.Name, Registers: registers[i]}
			if err := kernel.describe(sections, fatbin.CubinSM(code)); err != nil {
				return nil, unknownParams(s.Name, err.Error())
			}
			cubin.Kernels = append(cubin.Kernels, kernel)
		case isVariable(file, s):
			v, err := readVariable(file.Sections[s.Section], s)
			if err != nil {
				return nil, err
			}
			cubin.Variables = append(cubin.Variables, v)
		}
	}
	return cubin, nil
}

// describe reads what sections of their own say of a kernel.
func (k *Kernel) describe(sections map[string]*elf.Section, sm int) error {
	if shared := sections[sharedSection+"."+k.Name]; shared != nil {
		k.SharedBytes = shared.Size
		if sm >= firstReserved {
			k.SharedBytes -= min(k.SharedBytes, reservedBytes)
		}
	}
	section := sections[infoSection+"."+k.Name]
	if section == nil {
		return nil
	}
	data, err := section.Data()
	if err != nil {
		return err
	}
	if k.Params, err = parseInfo(data); err != nil {
		return err
	}
	return eachRecord(data, func(kind byte, value []byte) error {
		if len(value) != shapeBytes {
			return nil
		}
		var shape [3]uint32
		for i := range shape {
			shape[i] = binary.LittleEndian.Uint32(value[4*i:])
		}
		switch kind {
		case infoMaxThreads:
			k.MaxThreads = shape
		case infoRequiredThreads:
			k.RequiredThreads = shape
		}
		return nil
	})
}

// registerCounts reads the numbers of registers, by the index of the kernel among the symbols.
func registerCounts(section *elf.Section) (map[int]int32, error) {
	counts := map[int]int32{}
	if section == nil {
		return counts, nil
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	return counts, eachRecord(data, func(kind byte, value []byte) error {
		if kind == infoRegisters && len(value) == registersBytes {
			// debug/elf leaves out the first symbol, which is empty.
			counts[int(binary.LittleEndian.Uint32(value))-1] = int32(binary.LittleEndian.Uint32(value[4:]))
		}
		return nil
	})
}

// readVariable returns a variable with its content.
func readVariable(section *elf.Section, s elf.Symbol) (Variable, error) {
	v := Variable{
		Name: s.Name, Bytes: s.Size, Constant: strings.HasPrefix(section.Name, constantSection),
		Managed: s.Other&symbolManaged != 0, Local: elf.ST_BIND(s.Info) == elf.STB_LOCAL,
	}
	if section.Type == elf.SHT_NOBITS {
		return v, nil
	}
	data, err := section.Data()
	if err != nil {
		return v, err
	}
	if at := s.Value; at <= uint64(len(data)) && s.Size <= uint64(len(data))-at {
		v.Content = data[at : at+s.Size]
	}
	return v, nil
}
