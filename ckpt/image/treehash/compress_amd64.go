package treehash

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX512F

// compress16 hashes 16 inputs of so many blocks of 64 bytes, stride bytes apart, into 16 nodes.
//
//go:noescape
func compress16(out, in *byte, stride, blocks uint64, with *inputs)
