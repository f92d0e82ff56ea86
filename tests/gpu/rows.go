package main

import (
	"context"
	"time"
)

// allRows returns the rows, cheapest failures first.
func allRows(ctx context.Context, m *machine) []row {
	rows := probeRows()
	for _, s := range suites {
		rows = append(rows, s.rows(ctx, m)...)
	}
	rows = append(rows, benchRows(m)...)
	for i := range rows {
		rows[i].about = time.Duration(float64(rows[i].about) * m.slowness)
		rows[i].limit = time.Duration(float64(rows[i].limit) * m.slowness)
	}
	return rows
}
