package quota

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// maxNamed is how many processes a refusal names.
const maxNamed = 5

// Describe names processes to a user, each once, the first ones if they are many.
func Describe(uid uint32, processes []proc.Identity) string {
	var names []string
	for _, id := range processes {
		if name := id.DescribeTo(uid); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	more := len(names) - maxNamed
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
}
