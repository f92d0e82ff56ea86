package codeinfo

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Params returns the layout of a kernel's parameters.
func Params(image gpu.Image, kernel string) ([]gpu.Param, error) {
	if len(image.Cubin) > 0 {
		return cubinParams(image.Cubin, kernel)
	}
	for _, text := range image.PTX {
		module, err := ptx.Parse(text)
		if err != nil {
			continue
		}
		for _, f := range module.Funcs {
			if f.Entry && f.Name == kernel {
				return entryParams(f), nil
			}
		}
	}
	return nil, unknownParams(
		kernel,
		"phos cannot parse its PTX, and this driver does not report them; use a driver of CUDA 12.4 or later",
	)
}

// unknownParams returns the error for a kernel whose parameters cannot be determined.
func unknownParams(kernel, why string) error {
	return &gpu.Error{Op: "find parameters of " + kernel, Code: abi.NotSupported, Detail: why}
}

// cubinParams reads the parameters from machine code.
func cubinParams(cubin []byte, kernel string) ([]gpu.Param, error) {
	file, err := fatbin.OpenCubin(cubin)
	if err != nil {
		return nil, unknownParams(kernel, err.Error())
	}
	section := file.Section(".nv.info." + kernel)
	if section == nil {
		return nil, unknownParams(kernel, "the machine code does not describe it")
	}
	data, err := section.Data()
	if err != nil {
		return nil, unknownParams(kernel, err.Error())
	}
	params, err := parseInfo(data)
	if err != nil {
		return nil, unknownParams(kernel, err.Error())
	}
	return params, nil
}

// Records of a section .nv.info: a byte with the form, a byte with the kind, and a value or a
// length.
const (
	infoSized      = 4
	infoParam      = 0x17 // index, ordinal, offset, and a word with the size in its upper bits
	infoLargeParam = 0x45 // index, ordinal, offset, size
	infoParamBytes = 12
	infoSizeShift  = 18
	// The shape of blocks has three words.
	infoMaxThreads      = 0x05
	infoRequiredThreads = 0x10
	shapeBytes          = 12
	infoRegisters       = 0x2f // index of the symbol, number
	registersBytes      = 8
)

// eachRecord calls each for the records of a section .nv.info; value is nil for records whose value
// is in their header.
func eachRecord(data []byte, each func(kind byte, value []byte) error) error {
	for len(data) >= 4 {
		form, kind := data[0], data[1]
		var value []byte
		if form == infoSized {
			n := int(binary.LittleEndian.Uint16(data[2:]))
			if len(data)-4 < n {
				return fmt.Errorf("record of %d bytes in section rest of %d", n, len(data)-4)
			}
			value = data[4 : 4+n]
		}
		data = data[4+len(value):]
		if err := each(kind, value); err != nil {
			return err
		}
	}
	return nil
}

// parseInfo reads the parameters from a section .nv.info.
func parseInfo(data []byte) ([]gpu.Param, error) {
	var params []gpu.Param
	err := eachRecord(data, func(kind byte, value []byte) error {
		if kind != infoParam && kind != infoLargeParam {
			return nil
		}
		if len(value) != infoParamBytes {
			return fmt.Errorf("parameter record of %d bytes", len(value))
		}
		size := binary.LittleEndian.Uint32(value[8:])
		if kind == infoParam {
			size >>= infoSizeShift
		}
		params = append(params, gpu.Param{Offset: uint32(binary.LittleEndian.Uint16(value[6:])), Bytes: size})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(params, func(a, b gpu.Param) int { return cmp.Compare(a.Offset, b.Offset) })
	return params, nil
}

// entryParams converts the layout found by the PTX parser.
func entryParams(f *ptx.Func) []gpu.Param {
	params := make([]gpu.Param, len(f.Params))
	for i, p := range f.Params {
		params[i] = gpu.Param{Offset: uint32(p.Offset), Bytes: uint32(p.Bytes)}
	}
	return params
}
