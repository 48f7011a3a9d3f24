"""Purges under load while every part is killed in turn: is anything that was purged served again?"""
