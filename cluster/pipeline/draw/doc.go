// Package draw makes pictures of plans: an iteration of a pipeline as stages over time, and
// pipelines on nodes before and after a change.
//
// The pictures are SVG without scripts or fonts of their own; every rectangle has a title that
// browsers show when it is pointed at.
//
// Read svg.go first.
package draw
