package main

import "context"

// allRows are the rows in the order in which a failure is cheapest to learn of.
func allRows(ctx context.Context, m *machine) []row {
	rows := probeRows()
	for _, s := range suites {
		rows = append(rows, s.rows(ctx, m)...)
	}
	return append(rows, benchRows(m)...)
}
