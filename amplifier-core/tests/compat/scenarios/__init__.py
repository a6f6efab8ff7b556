"""Scripted scenarios that run unchanged on either kernel; each file is one area, each function one scenario."""
