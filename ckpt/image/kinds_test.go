package image

import (
	"slices"
	"testing"
)

func TestChooseKinds(t *testing.T) {
	for _, test := range []struct {
		name             string
		targets, skipped []string
		want             []string
		wrong            bool
	}{
		{"everything", nil, nil, nil, false},
		{"one", []string{"cuda_event"}, nil, []string{"cuda_event"}, false},
		{
			"in any order, twice",
			[]string{"cuda_var", "cuda_module", "cuda_var"},
			nil,
			[]string{"cuda_module", "cuda_var"},
			false,
		},
		{"all by name", slices.Clone(StateKinds), nil, nil, false},
		{"all but two", nil, []string{"cuda_memory", "cuda_var"}, []string{
			"cuda_context", "cuda_module", "cuda_function", "cuda_device", "cuda_stream", "cuda_event",
		}, false},
		{"nothing", nil, slices.Clone(StateKinds), nil, true},
		{"both", []string{"cuda_var"}, []string{"cuda_event"}, nil, true},
		{"unknown", []string{"cuda_dance"}, nil, nil, true},
	} {
		got, err := ChooseKinds(test.targets, test.skipped)
		if !slices.Equal(got, test.want) || (err != nil) != test.wrong {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}
