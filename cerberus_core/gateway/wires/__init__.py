"""The wires: what clients and endpoints speak, and what stands between two of them. Pure.

`dialect` holds each client's own words (errors, signs of life); the modules
named `x_over_y` translate for a client that speaks x and an endpoint that
speaks y.
"""
