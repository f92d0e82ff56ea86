package abi

import (
	"slices"
	"testing"
)

// TestSticky compares Sticky with CUDA's header: the codes after which "the process must be
// terminated and relaunched". Two hardware errors and one of device code poison a context too.
func TestSticky(t *testing.T) {
	header := []Result{226, 700, 702, 714, 715, 716, 717, 718, 719, 721, 810, 911}
	besides := []Result{214, 220, 710}
	for code := range Result(1000) {
		if want := slices.Contains(header, code) || slices.Contains(besides, code); code.Sticky() != want {
			t.Errorf("%s (%d): sticky is %v", code, code, !want)
		}
	}
}
