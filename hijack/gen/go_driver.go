package main

import (
	"fmt"
	"go/format"
	"strings"
)

// A driverCall is one that the backend for real GPUs makes of the driver.
type driverCall struct {
	name string
	// free calls work without a current context.
	free bool
	// optional calls are missing in old drivers; their callers work without them.
	optional bool
}

// driverCalls is what cgo/cudadrv offers besides what is written by hand there.
var driverCalls = []driverCall{
	{name: "cuInit", free: true},
	{name: "cuDriverGetVersion", free: true},
	{name: "cuDeviceGetCount", free: true},
	{name: "cuDeviceGetName", free: true},
	{name: "cuDeviceGetUuid_v2", free: true},
	{name: "cuDeviceTotalMem_v2", free: true},
	{name: "cuDeviceGetAttribute", free: true},
	{name: "cuDeviceCanAccessPeer", free: true},
	{name: "cuDeviceGetP2PAttribute", free: true},
	{name: "cuCtxDestroy_v2", free: true},
	{name: "cuCtxSetLimit"},
	{name: "cuCtxEnablePeerAccess"},
	{name: "cuCtxDisablePeerAccess"},
	{name: "cuMemGetInfo_v2"},
	{name: "cuMemHostAlloc"},
	{name: "cuMemHostRegister_v2"},
	{name: "cuMemHostUnregister"},
	{name: "cuMemHostGetDevicePointer_v2"},
	{name: "cuMemcpyAsync"},
	{name: "cuMemcpyDtoHAsync_v2"},
	{name: "cuMemcpyHtoDAsync_v2"},
	{name: "cuMemcpyPeerAsync"},
	{name: "cuMemsetD8Async"},
	{name: "cuMemsetD16Async"},
	{name: "cuMemsetD32Async"},
	{name: "cuMemsetD2D8Async"},
	{name: "cuMemsetD2D16Async"},
	{name: "cuMemsetD2D32Async"},
	{name: "cuStreamCreateWithPriority"},
	{name: "cuStreamDestroy_v2"},
	{name: "cuStreamQuery"},
	{name: "cuStreamSynchronize"},
	{name: "cuStreamWaitEvent"},
	{name: "cuStreamWriteValue32_v2", optional: true},
	{name: "cuStreamWriteValue64_v2", optional: true},
	{name: "cuStreamWaitValue32_v2", optional: true},
	{name: "cuStreamWaitValue64_v2", optional: true},
	{name: "cuEventCreate"},
	{name: "cuEventRecord"},
	{name: "cuEventQuery"},
	{name: "cuEventSynchronize"},
	{name: "cuEventElapsedTime"},
	{name: "cuModuleUnload"},
	{name: "cuModuleGetFunction"},
	{name: "cuModuleGetGlobal_v2"},
	{name: "cuModuleGetFunctionCount", optional: true},
	{name: "cuFuncGetName", optional: true},
	{name: "cuFuncGetAttribute"},
	{name: "cuFuncSetAttribute"},
	{name: "cuFuncGetParamInfo", optional: true},
	{name: "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
	{name: "cuGraphCreate"},
	{name: "cuGraphDestroy"},
	{name: "cuGraphAddEmptyNode"},
	{name: "cuGraphInstantiateWithFlags"},
	{name: "cuGraphLaunch"},
	{name: "cuGraphExecDestroy"},
}

// driverHandles are the handles of the driver that cgo/cudadrv keeps apart.
var driverHandles = map[string]string{
	"CUcontext": "Context", "CUmodule": "Module", "CUfunction": "Function", "CUstream": "Stream", "CUevent": "Event",
	"CUgraph": "Graph", "CUgraphNode": "GraphNode", "CUgraphExec": "GraphExec",
}

// driverScalars are how a scalar is written in C and in Go.
var driverScalars = map[string][2]string{
	"i32": {
		"int32_t",
		"int32",
	}, "u32": {"uint32_t", "uint32"}, "u64": {"uint64_t", "uint64"}, "f32": {"float", "float32"},
	"u8": {"uint8_t", "uint8"}, "u16": {"uint16_t", "uint16"},
}

// driverParam is a parameter on its way into the driver: its C type, its Go type, and what stands
// for it in the call.
type driverParam struct {
	name, c, goType string
	out, text       bool
}

// driverParams returns how each parameter of a call is passed to the driver.
func (s *spec) driverParams(c *call) []driverParam {
	var params []driverParam
	for _, p := range c.params {
		q := driverParam{name: goIdentifier(p.name), c: "void *", goType: "unsafe.Pointer", out: p.dir != in}
		wire, scalar := s.wire[p.ctype]
		pair, known := driverScalars[wire]
		switch handle := driverHandles[p.ctype]; {
		case p.isString():
			q.c, q.goType, q.text = "const char *", "string", true
		case p.isArray():
			q.out = false
		case handle != "":
			q.c, q.goType = "uint64_t", handle
		case scalar && known:
			q.c, q.goType = pair[0], pair[1]
		case q.out && (p.ctype == "const char *" || p.ctype == "void *"):
			// A pointer that the driver hands out.
		default:
			q.out = false // a struct or memory, which the caller has
		}
		params = append(params, q)
	}
	return params
}

// goIdentifier keeps parameter names apart from Go's words and from the methods' own.
func goIdentifier(name string) string {
	switch name {
	case "func", "ctx", "d", "err", "C", "type", "len":
		return name + "_"
	}
	return name
}

// driverCallsOf finds the calls in the specification.
func (s *spec) driverCallsOf() ([]*call, error) {
	found := make([]*call, len(driverCalls))
	for i, want := range driverCalls {
		for _, c := range s.calls {
			if c.name == want.name {
				found[i] = c
			}
		}
		if found[i] == nil || !found[i].implemented() {
			return nil, fmt.Errorf("%s has no prototype in hijack/spec", want.name)
		}
	}
	return found, nil
}

// goDriver writes the methods of cudadrv.Driver that only pass a call on, with the C between.
func goDriver(s *spec) ([]byte, error) {
	calls, err := s.driverCallsOf()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(
		"// Code generated by hijack/gen. DO NOT EDIT.\n\n//go:build cgo\n\npackage cudadrv\n\n/*\n#include \"driver.h\"\n\n",
	)
	for i, c := range calls {
		cTrampoline(&b, driverCalls[i], i, s.driverParams(c))
	}
	b.WriteString("*/\nimport \"C\"\n\nimport \"unsafe\"\n\n")
	b.WriteString("// names are the driver's entry points, in the order of the table in C.\nvar names = [...]name{\n")
	for _, c := range driverCalls {
		fmt.Fprintf(&b, "\t{%q, %v},\n", c.name, c.optional)
	}
	b.WriteString("}\n")
	for i, c := range calls {
		goTrampoline(&b, driverCalls[i], c, s.driverParams(c))
	}
	return format.Source([]byte(b.String()))
}

// cTrampoline writes a C function that makes the context current and calls through the table.
func cTrampoline(b *strings.Builder, d driverCall, index int, params []driverParam) {
	var declared, types, passed []string
	if !d.free {
		declared = append(declared, "uint64_t phos_context")
	}
	for i, p := range params {
		ctype := p.c
		if p.out {
			ctype = pointerTo(p.c)
		}
		declared = append(declared, fmt.Sprintf("%s a%d", ctype, i))
		types = append(types, ctype)
		passed = append(passed, fmt.Sprintf("a%d", i))
	}
	fmt.Fprintf(b, "static int32_t phos_%s(%s)\n{\n", d.name, strings.Join(declared, ", "))
	if !d.free {
		b.WriteString("\tint32_t result = phos_enter(phos_context);\n\tif (result != 0)\n\t\treturn result;\n")
	}
	if d.optional {
		fmt.Fprintf(b, "\tif (phos_driver[%d] == 0)\n\t\treturn PHOS_NO_SUCH_CALL;\n", index)
	}
	fmt.Fprintf(
		b,
		"\treturn ((int32_t (*)(%s))phos_driver[%d])(%s);\n}\n\n",
		strings.Join(types, ", "),
		index,
		strings.Join(passed, ", "),
	)
}

// goSignature is a method's parameters and results.
func goSignature(d driverCall, params []driverParam) (takes, gives []string) {
	if !d.free {
		takes = append(takes, "ctx Context")
	}
	for _, p := range params {
		if p.out {
			gives = append(gives, p.name+" "+p.goType)
		} else {
			takes = append(takes, p.name+" "+p.goType)
		}
	}
	return takes, append(gives, "err error")
}

// goTrampoline writes the Go method that calls a function of the driver through its C wrapper.
func goTrampoline(b *strings.Builder, d driverCall, c *call, params []driverParam) {
	takes, gives := goSignature(d, params)
	fmt.Fprintf(
		b,
		"\n// %s is %s.\nfunc (d *Driver) %s(%s) (%s) {\n",
		c.goName(),
		c.name,
		c.goName(),
		strings.Join(takes, ", "),
		strings.Join(gives, ", "),
	)
	var passed []string
	if !d.free {
		passed = append(passed, "C.uint64_t(ctx)")
	}
	for _, p := range params {
		ctype := "C." + p.c
		switch {
		case p.out && p.c == "void *":
			passed = append(passed, "&"+p.name)
		case p.out:
			passed = append(passed, fmt.Sprintf("(*%s)(&%s)", ctype, p.name))
		case p.text:
			fmt.Fprintf(b, "\ttext := C.CString(%s)\n\tdefer C.free(unsafe.Pointer(text))\n", p.name)
			passed = append(passed, "text")
		case p.c == "void *":
			passed = append(passed, p.name)
		default:
			passed = append(passed, fmt.Sprintf("%s(%s)", ctype, p.name))
		}
	}
	fmt.Fprintf(b, "\terr = result(%q, C.phos_%s(%s))\n\treturn\n}\n", d.name, d.name, strings.Join(passed, ", "))
}

// goNoDriver writes the same methods for a build without cgo. They are never called: no Driver can
// be opened.
func goNoDriver(s *spec) ([]byte, error) {
	calls, err := s.driverCallsOf()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(
		"// Code generated by hijack/gen. DO NOT EDIT.\n\n//go:build !cgo\n\npackage cudadrv\n\nimport \"unsafe\"\n",
	)
	for i, c := range calls {
		takes, gives := goSignature(driverCalls[i], s.driverParams(c))
		fmt.Fprintf(&b, "\n// %s is %s.\nfunc (d *Driver) %s(%s) (%s) {\n\terr = ErrNoCgo\n\treturn\n}\n",
			c.goName(), c.name, c.goName(), strings.Join(takes, ", "), strings.Join(gives, ", "))
	}
	return format.Source([]byte(b.String()))
}
