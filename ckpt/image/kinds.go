package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StateKinds are the kinds of GPU state that a checkpoint can save or leave out.
var StateKinds = []string{
	"cuda_context", "cuda_module", "cuda_function", "cuda_var", "cuda_device", "cuda_memory", "cuda_stream",
	"cuda_event",
}

// ChooseKinds returns the kinds to save, in the order of StateKinds; nil means all.
func ChooseKinds(targets, skipped []string) ([]string, error) {
	if len(targets) > 0 && len(skipped) > 0 {
		return nil, errors.New("targets and skipped targets exclude each other")
	}
	for _, kind := range slices.Concat(targets, skipped) {
		if !slices.Contains(StateKinds, kind) {
			return nil, fmt.Errorf(
				"%.40q is not a kind of state; the kinds are %s",
				kind,
				strings.Join(StateKinds, ", "),
			)
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(StateKinds), func(kind string) bool {
		return slices.Contains(skipped, kind) || len(targets) > 0 && !slices.Contains(targets, kind)
	})
	switch len(chosen) {
	case 0:
		return nil, errors.New("no kind of state is left to save")
	case len(StateKinds):
		return nil, nil
	}
	return chosen, nil
}
