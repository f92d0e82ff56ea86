package digest

import "encoding/binary"

// sums is the first level of a strip: for each column and lane the sum of words times key words,
// modulo 2^64. The sum of a column has two parts: words 0 and 1, and words 2 and 3. Two columns are
// stored together, in the layout of 256-bit vectors.
type sums [columns / 2][lanes][4]uint64

// of returns the whole sum of a column.
func (s *sums) of(column, lane int) uint64 {
	pair := s[column/2][lane][column%2*2:]
	return pair[0] + pair[1]
}

// addStrip adds a strip. A short strip is padded with zeros.
func (s *sums) addStrip(content []byte, first *[firstWords]uint32) {
	rows := len(content) / rowBytes
	if rows > 0 {
		addRows(s, content[:rows*rowBytes], first[:])
	}
	if rest := content[rows*rowBytes:]; len(rest) > 0 {
		var row [rowBytes]byte
		copy(row[:], rest)
		addRows(s, row[:], first[rows*wordsPerColumn:])
	}
}

// addRowsPlain adds whole rows; key begins with the key words of the first row. It is the
// definition; addRows may be faster.
func addRowsPlain(s *sums, rows []byte, key []uint32) {
	for ; len(rows) > 0; rows, key = rows[rowBytes:], key[wordsPerColumn:] {
		for column := range columns {
			words := rows[column*16:][:16]
			for half := range uint64(2) {
				low := uint64(binary.LittleEndian.Uint32(words[8*half:]))
				high := uint64(binary.LittleEndian.Uint32(words[8*half+4:]))
				for lane := range lanes {
					k := key[int(2*half)+lane:][:2]
					s[column/2][lane][column%2*2+int(half)] += low*uint64(k[0]) + high*uint64(k[1])
				}
			}
		}
	}
}
