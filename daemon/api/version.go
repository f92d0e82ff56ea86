package api

// Version is the version of this build; build.sh sets it with -ldflags -X. libphos.so, phosd and
// pos_cli must have the same version.
var Version = "0.0.0-dev"
