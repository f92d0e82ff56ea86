//go:build !amd64

package digest

func addRows(s *sums, rows []byte, key []uint32) { addRowsPlain(s, rows, key) }
