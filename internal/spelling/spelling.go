// Package spelling finds the word that a misspelt one was probably meant to be.
package spelling

// maxEdits is how many mistakes a word may have for which another one is suggested.
const maxEdits = 2

// Nearest returns the known word that a wrong one was probably meant to be, or "".
func Nearest(wrong string, known []string) (found string) {
	// In a short word, two mistakes leave nothing to recognize.
	best := min(maxEdits, len(wrong)/2) + 1
	for _, each := range known {
		if edits := distance(wrong, each); edits < best {
			found, best = each, edits
		}
	}
	return found
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into
// b: the optimal string alignment distance.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
