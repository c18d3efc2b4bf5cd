// Package tools has nothing to build: of the module in go.mod the resources are copied.
package tools
