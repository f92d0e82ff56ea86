package image

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StateKinds are the kinds of state of a GPU half that a checkpoint can be told to save, or to
// leave out.
var StateKinds = []string{
	"cuda_context", "cuda_module", "cuda_function", "cuda_var", "cuda_device", "cuda_memory", "cuda_stream", "cuda_event",
}

// ChooseKinds is what is to be saved, in the order of StateKinds; nil: everything.
func ChooseKinds(targets, skipped []string) ([]string, error) {
	if len(targets) > 0 && len(skipped) > 0 {
		return nil, errors.New("targets and skipped targets exclude each other")
	}
	for _, kind := range slices.Concat(targets, skipped) {
		if !slices.Contains(StateKinds, kind) {
			return nil, fmt.Errorf("%.40q is no kind of state; the kinds are %s", kind, strings.Join(StateKinds, ", "))
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(StateKinds), func(kind string) bool {
		return slices.Contains(skipped, kind) || len(targets) > 0 && !slices.Contains(targets, kind)
	})
	switch len(chosen) {
	case 0:
		return nil, errors.New("nothing is left to be saved")
	case len(StateKinds):
		return nil, nil
	}
	return chosen, nil
}
