// Package draw draws plans: an iteration of a pipeline as stages over time, and pipelines on nodes
// before and after a change.
//
// The charts are SVG without scripts or fonts; every rectangle has a title that browsers show on
// hover.
//
// Read svg.go first.
package draw
