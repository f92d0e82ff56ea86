package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func loadSpec(t *testing.T) *spec {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	s, err := load(filepath.Join(root, "hijack/spec"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLookup asks the table of cuGetProcAddress what runtimes ask, with the answers that a real
// driver gives.
func TestLookup(t *testing.T) {
	rows := loadSpec(t).procRows()
	find := func(name string, version int, perThread bool) string {
		found := ""
		for _, r := range rows {
			if r.name == name && r.version <= version && (!r.perThread || perThread) {
				found = r.function
			}
		}
		return found
	}
	for _, test := range []struct {
		name      string
		version   int
		perThread bool
		want      string
	}{
		{"cuGetProcAddress", 11030, false, "cuGetProcAddress"},
		{"cuGetProcAddress", 11080, false, "cuGetProcAddress"},
		{"cuGetProcAddress", 12000, false, "cuGetProcAddress_v2"},
		{"cuMemAlloc", 12040, false, "cuMemAlloc_v2"},
		{"cuCtxCreate", 11030, false, "cuCtxCreate_v2"},
		{"cuCtxCreate", 11040, false, "cuCtxCreate_v3"},
		{"cuCtxCreate", 13000, false, "cuCtxCreate_v4"},
		{"cuCtxSynchronize", 12080, false, "cuCtxSynchronize"},
		{"cuCtxSynchronize", 13000, false, "cuCtxSynchronize_v2"},
		{"cuStreamGetCaptureInfo", 11000, false, "cuStreamGetCaptureInfo"},
		{"cuStreamGetCaptureInfo", 12000, false, "cuStreamGetCaptureInfo_v2"},
		{"cuStreamGetCaptureInfo", 12030, true, "cuStreamGetCaptureInfo_v3_ptsz"},
		{"cuGraphInstantiate", 10020, false, "cuGraphInstantiate"},
		{"cuGraphInstantiate", 11080, false, "cuGraphInstantiate_v2"},
		{"cuGraphInstantiate", 12040, false, "cuGraphInstantiateWithFlags"},
		{"cuGraphAddKernelNode", 11080, false, "cuGraphAddKernelNode"},
		{"cuGraphAddKernelNode", 12000, false, "cuGraphAddKernelNode_v2"},
		{"cuMemPrefetchAsync", 12010, true, "cuMemPrefetchAsync_ptsz"},
		{"cuMemPrefetchAsync", 13000, false, "cuMemPrefetchAsync_v2"},
		{"cuDevicePrimaryCtxRelease", 10020, false, "cuDevicePrimaryCtxRelease"},
		{"cuDevicePrimaryCtxRelease", 11000, false, "cuDevicePrimaryCtxRelease_v2"},
		{"cuDeviceGetUuid", 11030, false, "cuDeviceGetUuid"},
		{"cuDeviceGetUuid", 12000, false, "cuDeviceGetUuid_v2"},
		{"cuIpcOpenMemHandle", 12000, false, "cuIpcOpenMemHandle_v2"},
		{"cuMemcpyHtoD", 12000, true, "cuMemcpyHtoD_v2_ptds"},
		{"cuMemcpyHtoD", 12000, false, "cuMemcpyHtoD_v2"},
		{"cuLaunchKernel", 12000, true, "cuLaunchKernel_ptsz"},
		{"cuLibraryLoadData", 11080, false, ""},
		{"", 12000, false, ""},
	} {
		if got := find(test.name, test.version, test.perThread); got != test.want {
			t.Errorf("%q for %d, per thread %v: %q, want %q", test.name, test.version, test.perThread, got, test.want)
		}
	}
}

// TestNames checks a few entry points that programs resolve by dlsym, the legacy ones that cuBLASLt
// wants among them.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, name := range loadSpec(t).symbols() {
		if names[name] {
			t.Errorf("%s is exported twice", name)
		}
		names[name] = true
	}
	for _, name := range strings.Fields(`cuCtxPushCurrent cuCtxPopCurrent cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset cuStreamWaitValue32
		cuStreamBatchMemOp cuGraphKernelNodeGetParams cuGraphExecKernelNodeSetParams cuGraphInstantiate cuMemcpy cuMemcpyAsync
		cuMemPrefetchAsync cuProfilerStart cuMemAlloc cuCtxDetach cuFuncSetBlockShape cuVDPAUGetDevice cuMulticastCreate cuCheckpointProcessLock`) {
		if !names[name] {
			t.Errorf("%s is not exported", name)
		}
	}
	if len(names) < 660 {
		t.Errorf("only %d names", len(names))
	}
}

// TestProblems gives the parser and the checks one wrong file after the other.
func TestProblems(t *testing.T) {
	const types = "type int i32\ntype size_t u64\ntype CUgraphNode handle\n"
	for _, test := range []struct{ file, want string }{
		{"call cuA 1 sync\n  in a int\n  bogus\n", "x.api:6: unknown line"},
		{"bogus cuA\n", "unknown stanza"},
		{"  in a int\n", "outside a stanza"},
		{"call cuA\n", "want call"},
		{"call cuA sync\n", "a number belongs"},
		{"call cuA 1 local\n", "a number belongs"},
		{"call cuA 70000 sync\n", "16 bits"},
		{"call cuA 1 often\n", "belongs to the classes"},
		{"call cuA 1 sync\n  in a strange\n", "not in types.api"},
		{"call cuA 1 async\n  out a int\n", "returns nothing"},
		{"call cuA 1 sync\n  in a CUgraphNode[n]\n", "no parameter"},
		{"call cuA 1 sync\ncall cuB 1 sync\n", "have number 1"},
		{"call cuA 1 sync\ncall cuA 2 sync\n", "stands at"},
		{"call cuA 1 sync\ncall cuA_v2 2 sync\n", "both A in Go"},
		{"call cuA local\n  proc cuA 1\ncall cuB local\n  proc cuA 1\n", "both answer"},
		{"call cuA alias cuB\n", "unknown target"},
		{"call launch local\n", "wire call"},
		{"call cuA local\n  twin xyz\n", "ptsz or ptds"},
		{"refuse cuA cuA\n", "want refuse"},
		{"type strange\n", "without a way"},
		{"", "no calls"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.api"), []byte(types+test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.file, err, test.want)
		}
	}
}

// TestTopics wants exactly one topic for each forwarded call, and an error for a call of an unknown
// file.
func TestTopics(t *testing.T) {
	s := loadSpec(t)
	if err := s.checkTopics(); err != nil {
		t.Error(err)
	}
	for _, c := range s.framedCalls() {
		found := 0
		for _, topic := range topics {
			if slices.Contains(topic.files, c.topic) {
				found++
			}
		}
		if _, err := topicOf(c); err != nil || found > 1 {
			t.Errorf("%s: %s has %d topics: %v", c.where, c.name, found, err)
		}
	}
	s.calls = append(s.calls, &call{name: "lost", number: 0xffff, class: sync, topic: "nothing"})
	if _, err := goTopics(s); err == nil {
		t.Error("a call without a topic is no error")
	}
}
