package digest

import "golang.org/x/sys/cpu"

var vector = cpu.X86.HasAVX2

// burstRows is how many rows are processed in columns of one cache line: few enough to stay in the
// L1 cache.
const burstRows = 16

// addRows adds whole rows; key begins with the key words of the first row.
func addRows(s *sums, rows []byte, key []uint32) {
	if !vector {
		addRowsPlain(s, rows, key)
		return
	}
	for len(rows) > 0 {
		n := min(len(rows)/rowBytes, burstRows)
		for line := range rowBytes / lineBytes {
			addLines(&s[2*line], &rows[line*lineBytes], n, &key[0])
		}
		rows, key = rows[n*rowBytes:], key[n*wordsPerColumn:]
	}
}

// lineBytes is the size of the four columns that addLines adds.
const lineBytes = 64

// addLines adds four columns of rows to two pairs of sums.
//
//go:noescape
func addLines(pairs *[lanes][4]uint64, columns *byte, rows int, key *uint32)
