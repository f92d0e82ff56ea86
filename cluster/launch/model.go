package launch

import (
	"slices"
	"strings"
)

// IsModel reports whether a GPU that its driver calls name is of a model as people write it:
// "a100-80gb" is "NVIDIA A100-SXM4-80GB", "rtx3090" is "NVIDIA GeForce RTX 3090". Each word of the
// model must be a word of the name, or two that follow each other.
func IsModel(model, name string) bool {
	has := modelWords(name)
	for i := range len(has) - 1 {
		has = append(has, has[i]+has[i+1])
	}
	wanted := modelWords(model)
	for _, each := range wanted {
		if !slices.Contains(has, each) {
			return false
		}
	}
	return len(wanted) > 0
}

// modelWords splits a model's name into words of small letters and digits.
func modelWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}
