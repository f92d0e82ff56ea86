module github.com/phos-gpu/phos

go 1.26.0

toolchain go1.26.8
