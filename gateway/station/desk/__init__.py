"""The reviewers' web pages and their JSON twin; in this version they only read.

Owns HTTP of the station. Shows whatever came with a ticket as text, and runs no script at all.
"""
