package code

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
)

// shownLargest is how many names an error has.
const shownLargest = 3

// largest says which files and directories at the top of a directory take the most bytes.
func largest(root *os.Root, names []string) string {
	sums := map[string]int64{}
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() {
			top, _, below := strings.Cut(name, "/")
			if below {
				top += "/"
			}
			sums[top] += info.Size()
		}
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, name := range order[:min(shownLargest, len(order))] {
		texts = append(texts, fmt.Sprintf("%s has %s", humanize.Shorten(name, 60), humanize.Bytes(uint64(sums[name]))))
	}
	return strings.Join(texts, ", ")
}
